"""Ends the process as soon as SIGTERM comes. Import it before everything else that starts threads, as TensorFlow does.

An ordinary handler is not enough: TensorFlow puts its own in place of it, which only notes the signal, and Python runs
handlers when TensorFlow returns to it, which it does not while it waits for a process that is gone. So every thread
but one keeps the signal out; threads inherit that from the thread that starts them. Only while
MultiWorkerMirroredStrategy waits for all workers to be there does it let no other Python thread run: then the process
ends by SIGKILL, at the end of the pod's grace period.
"""

import os
import signal
import threading


def wait() -> None:
    signal.sigwait({signal.SIGTERM})
    # The checkpoint of the last whole epoch is on disk already, so there is nothing to finish first.
    print("stopping on SIGTERM", flush=True)
    os._exit(128 + signal.SIGTERM)


signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
threading.Thread(target=wait, daemon=True).start()
