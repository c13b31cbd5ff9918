"""The command line: one file per group of commands, each with a `register`; heavy imports happen inside the commands."""
