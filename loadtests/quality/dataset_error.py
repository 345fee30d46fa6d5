"""What is wrong with a data set."""


class DatasetError(ValueError):
    """A file that cannot be read as a data set; the message says where and why."""
