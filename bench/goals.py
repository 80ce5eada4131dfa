"""What is to hold, in one sentence each. The figures of a measurement name the goal that they belong to."""

from __future__ import annotations

GOALS = {
    "G1": "What a complete run of two turns, durable, takes beyond two bare spawns of its engine is "
    "at most 4 times as long as those",
    "G2": "It uses at most 10 ms of the service's processor time, skill copy and audit included",
    "G3": "A job that is posted while all slots are busy costs one commit, and at most 3 times the "
    "processor time of a bare POST with a commit; with 8 clients p99 is below 20 ms",
    "G4": "From the acknowledgement of a reply to the start of the engine: p50 below 5 ms, p99 below 20 ms",
    "G5": "From the engine's exit until the run is seen to wait: p50 below 5 ms; nothing polls meanwhile",
    "G6": "At least 60 complete runs per second with 16 and with 64 in flight, and no fewer with 64, but for "
    "what rounds of the same differ by",
    "G7": "A run of two turns makes at most 8 commits besides batches of output, in one database file; "
    "the service opens at most 25 files for it and starts exactly 2 processes",
    "G8": "A run that waits holds no process, task, timer or descriptor, less than 0.5 KB of memory and "
    "less than 8 KB of disk beside its workspace and its copy of the skill; with 100,000 of them an "
    "idle service uses no processor time",
    "G9": "With 100,000 waiting runs a restart answers less than 1 s later than with none, and takes "
    "less than 5 MB more",
    "G10": "From an engine's line to a client of its stream: p50 below 10 ms at 200 lines per second; "
    "each delivery costs at most 100 µs of processor time with 100 clients, and a client at most "
    "32 KB; 1,000 clients add nothing to a turn beyond their deliveries",
    "G11": "A line of output costs at most 30 µs of processor time until it is stored and published; 100 "
    "MB are taken in within 15 s and 64 MB more memory, while no call takes longer than 250 ms",
    "G12": "Status and open question cost less than 1 ms of processor time, a page of 1,000 events less "
    "than 10 ms, and the last page of 1,000,000 events less than 2 ms",
    "G13": "With a full queue a job is refused within 5 ms; at 10 times the load that fits, p99 is at "
    "most twice that at capacity, and memory is bounded",
    "G14": "An idle service has at most 75 MB, answers at most 1.2 s after its start, and is woken by "
    "nothing",
    "G15": "With 10 times the runs, events or history, each of these costs at most 1.2 times as much",
    "sandbox": "What the sandbox adds; it is off in everything above",
}
