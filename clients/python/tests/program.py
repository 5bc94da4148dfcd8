"""Programs that `npm test` runs against a real server: each prints one JSON object a line."""
import asyncio
import json
import os
import sys
import time

import countersign
from countersign import AsyncClient, Client, CountersignError, Declined, NotAnswered, NotApproved, serve, serve_async


def say(**fields):
    print(json.dumps(fields), flush=True)


def ask():
    """Asks with a key, so that a second process finds the same question."""
    with Client() as client:
        answer = client.hxp.decide("Which colour?", ["red", "blue"], key="colour", on_asked=lambda request: say(asked=request["id"]))
        say(result=answer.result, verified=answer.verified)


def refused():
    """The errors that a program sees."""
    with Client() as client:
        for call in (
            lambda: client.hxp.approve("Delete everything", reject_requires_reason=True, on_asked=lambda one: say(asked=one["id"])),
            lambda: client.hxp.provide("A code", on_asked=lambda one: say(asked=one["id"])),
            lambda: client.hxp.verify("It rained", timeout=0.3, cancel_on_timeout=True),
            lambda: client.task.create(project_id="project_default"),
            lambda: client.task.get(task_id="task_none"),
        ):
            try:
                call()
            except NotApproved as error:
                say(error="NotApproved", reason=error.reason, receipt=error.answer.receipt["request_id"])
            except Declined as error:
                say(error="Declined", said=error.said)
            except NotAnswered as error:
                say(error="NotAnswered", status=error.status)
            except CountersignError as error:
                say(error=error.code, status=error.status, retryable=error.retryable)


def owner():
    """A person's program: a task, its pages and its bytes."""
    with Client() as client:
        task = client.task.create(goal="Count", acceptance_criteria=["counted"])["task"]
        try:
            client.task.create(goal="Count", spec={"goal": "Count"})
        except TypeError as error:
            say(error=str(error))
        for number in range(3):
            client.task.create(goal="Page %d" % number)
        say(task=task["id"], goals=sorted(one["spec"]["goal"] for one in client.each(client.task.list, limit=2)))
        for cursor, event in client.follow("collaboration/audit.follow", task_id=task["id"]):
            say(event=event["event"]["action"], cursor=cursor != "")
            break


def agent():
    """An agent whose handler does what the goal of the run names."""

    def handle(run):
        goal = run.input.get("goal", run.input.get("do"))
        if goal == "throw":
            raise ValueError("the file is missing")
        if goal == "fork":
            if os.fork() == 0:
                return {"child": True}
            os.wait()
            return {"parent": True}
        if goal == "hang":
            say(hanging=run.id)
            time.sleep(600)
        if goal == "ask":
            first = run.memo("first", lambda: os.getpid())
            say(working=run.id, attempt=run.attempt, first=first, pid=os.getpid())
            answer = run.ask.approve("Publish?")
            run.progress("publishing", 50)
            run.commit(b"x" * 200_000, name="big.bin")
            say(committed=answer.result)
            return None
        return {"doubled": run.input["n"] * 2}

    serve(os.environ["AGENT"], handle, lease=2.0, wait=2.0, grace=0.5, on_error=lambda error, run: say(failed=str(error)))


def agent_async():
    async def handle(run):
        answer = await run.ask.decide("Which?", ["a", "b"])
        await run.commit(answer.result)

    asyncio.run(serve_async(os.environ["AGENT"], handle, lease=2.0, wait=2.0))


def many():
    """Asks with 32 requests in flight."""
    count = int(os.environ.get("COUNT", "100"))

    async def all_of_them():
        async with AsyncClient(concurrency=32) as client:
            began = time.monotonic()
            answers = await asyncio.gather(*[client.hxp.approve("Number %d" % number, key="many/%s/%d" % (os.environ.get("ROUND", ""), number)) for number in range(count)])
            seconds = time.monotonic() - began
            me = await client.me.get()
            say(answers=len(answers), results=sorted({answer.result for answer in answers}), me=me["id"], seconds=seconds)

    asyncio.run(all_of_them())


if __name__ == "__main__":
    say(version=countersign.__version__)
    {name: one for name, one in globals().items() if callable(one)}[sys.argv[1]]()
