"""The command line: `app` lists the commands, one module each does the work of one."""
