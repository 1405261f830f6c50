"""Happens-before over the generic, async and tensor proxies.

`tracker` is what a machine tells; `checker.Checker` listens and reports. Inside of it:

| module | content |
|---|---|
| `agents`, `knowledge`, `warps` | streams of accesses, vector clocks over them, what a warp knows |
| `places`, `shadow`, `sparse`, `memory` | which cells an access touches, who touched them before |
| `records`, `accesses` | accesses by number; each compared with those before it |
| `operations`, `streams` | asynchronous operations and the groups in which warps wait for them |
| `mbarriers`, `arrivals`, `barriers`, `exits` | what synchronization hands on; ends of CTAs |
| `findings`, `needs` | what is reported, and what would order two accesses |
| `state`, `grid` | shared state, numbers of CTAs and warps |
"""
