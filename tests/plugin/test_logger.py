"""The logger, by the tests that Snakemake has for every logger."""

from snakemake_interface_logger_plugins.tests import TestLogHandlerBase

from snakemake_logger_plugin_mlflow import LogHandler


class TestLogger(TestLogHandlerBase):
    __test__ = True

    def get_log_handler_cls(self):
        return LogHandler

    def get_log_handler_settings(self):
        return None
