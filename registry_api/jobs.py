"""Work that outlasts a request, on a queue in the same Postgres (procrastinate).

A job only points at a row; whether there is still work to do stands in the
row, so a job may run twice, late, or be lost with its worker: once a minute
pushes that nobody verifies are queued again.
"""

import asyncio
import logging
import threading
import uuid

from procrastinate import App, PsycopgConnector, SyncPsycopgConnector
from procrastinate.exceptions import AlreadyEnqueued
from procrastinate.jobs import Status
from sqlalchemy import select
from sqlalchemy.orm import Session

from registry_api.db.session import conninfo_of, transaction
from registry_api.db.tables import PushRow
from registry_api.parts import Parts

VERIFY = "verify_push"
CONCURRENCY = 2

logger = logging.getLogger("registry_api")


def defer_verify(session: Session, push_id: uuid.UUID) -> None:
    """Queue the verifying of a push, in the transaction that decides it."""
    queue = App(connector=SyncPsycopgConnector())
    connection = session.connection().connection.driver_connection
    try:
        with session.begin_nested():
            queue.configure_task(VERIFY, queueing_lock=str(push_id), connection=connection).defer(
                push_id=str(push_id)
            )
    except AlreadyEnqueued:
        return


def defer_stale(parts: Parts) -> None:
    """Queue the verifying of every push that waits for it; one under way is left alone there."""
    with transaction(parts.engine) as session:
        for push_id in session.scalars(select(PushRow.id).where(PushRow.state == "verifying")):
            defer_verify(session, push_id)


def worker_app(parts: Parts) -> App:
    """Return the queue with every task that a worker can do."""
    from registry_api.push import sweep, verify

    app = App(connector=PsycopgConnector(conninfo=conninfo_of(parts.settings.database_url)))

    @app.task(name=VERIFY)
    def verify_push(push_id: str) -> None:
        verify.run(parts, uuid.UUID(push_id))

    @app.periodic(cron="* * * * *")
    @app.task(name="sweep", queueing_lock="sweep")
    async def sweep_all(timestamp: int) -> None:
        for job in await app.job_manager.get_stalled_jobs():
            await app.job_manager.finish_job(job, status=Status.FAILED, delete_job=True)
        await asyncio.to_thread(defer_stale, parts)
        await asyncio.to_thread(sweep.drop_expired, parts)
        await asyncio.to_thread(sweep.drop_orphans, parts)

    return app


async def work(parts: Parts) -> None:
    """Do jobs until cancelled."""
    await asyncio.to_thread(defer_stale, parts)
    async with worker_app(parts).open_async() as app:
        await app.run_worker_async(
            concurrency=CONCURRENCY,
            install_signal_handlers=False,
            delete_jobs="always",
            shutdown_graceful_timeout=10,
        )


class WorkerThread:
    """A worker beside the API in one process."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._loop = asyncio.new_event_loop()
        self._task: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name="worker", daemon=True)

    def start(self) -> None:
        """Start to work."""
        self._thread.start()

    def stop(self) -> None:
        """Stop; a push under way is left for the next worker."""
        self._parts.stopping.set()
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._cancel)
            self._thread.join()

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._task = self._loop.create_task(work(self._parts))
        try:
            self._loop.run_until_complete(self._task)
        except asyncio.CancelledError:
            pass
        except Exception:
            logger.exception("the worker has stopped")
        finally:
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()
