"""What the test bed tells its user instead of a traceback."""


class BedError(Exception):
    """A situation that the user can understand and act on; the message is the whole output."""
