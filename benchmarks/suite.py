"""The benchmark suite: runs the programs of a build, keeps their samples, says what moved.

benchmarks/run.sh builds the programs and calls this. Python's standard library is all it needs.

A figure is one time of one program, e.g. tensor.kernels/relu/65536. Each round runs every program
once, so that a figure has one sample a round, and other load on the machine hits all programs. With
two builds each program runs for both before the next one begins, and the order alternates.

A figure has moved if the medians differ by more than 3 % and no sample of one side lies within the
range of the other's: the extreme value of the Mann-Whitney U statistic. With five rounds the chance
of that is 1 in 126 for samples of one distribution; with three, 1 in 10.
"""

import argparse
import collections
import datetime
import json
import os
import pathlib
import platform
import re
import shlex
import statistics
import subprocess
import sys
import tempfile

FORMAT = 1
LEAST_DIFFERENCE = 0.03

Program = collections.namedtuple("Program", "name ranks arguments reads seconds")


def google(name, seconds, ranks=1, arguments=()):
    """A Google Benchmark program; `ranks` is 1, or "n" for one that measures communication."""
    return Program(name, ranks, list(arguments), google_figures, seconds)


def google_figures(text, report):
    """The times of a program's rows: its sides (counters NAME_us), or the row's own time."""
    to_us = {"ns": 1e-3, "us": 1, "ms": 1e3, "s": 1e6}
    figures = {}
    for row in json.loads(report)["benchmarks"]:
        name = re.sub(r"/(manual_time|real_time|iterations:\d+)", "", row["name"])
        if row.get("error_occurred"):
            continue
        sides = {key[:-3]: value for key, value in row.items() if key.endswith("_us")}
        sides |= {key[:-3]: 1e3 * value for key, value in row.items() if key.endswith("_ms")}
        if not sides:
            sides = {"": row["real_time"] * to_us[row["time_unit"]]}
        for side, value in sides.items():
            figures[name + (" " + side if side else "")] = value
    return figures


def operation_figures(text, report):
    """autograd.operations_bench: lines "NAME forward_us backward_us"."""
    figures = {}
    for line in text.splitlines():
        name, forward, backward = line.split()
        figures[name + " forward"] = float(forward)
        if float(backward) > 0:
            figures[name + " backward"] = float(backward)
    return figures


def model_figures(text, report):
    """nn.model_step_bench: "samples/s X ..."; here microseconds a sample."""
    return {"sample": 1e6 / float(re.search(r"samples/s ([0-9.e+-]+)", text)[1])}


def model(name, batch):
    return Program(f"nn.model_step {name}", 1, [name, str(batch), "1"], model_figures, 2)


LEFT_OUT = {
    "autograd.linear_cross_entropy": "it measures one way beside another in one run",
    "autograd.native_products": "it measures one way beside another in one run",
    "train.checkpoint": "it takes minutes and measures the disk",
    "tensor.device": "it needs a GPU",
    "parallel.fully_shard": "its steps take seconds (benchmarks/pytorch/fully_shard.py is beside it)",
    "parallel.ring_attention": "its long sequences take minutes",
    "parallel.tensor": "it measures one part beside PyTorch (benchmarks/compare_tensor_parallel.sh)",
    "nn.gpt": "it measures one part beside PyTorch (benchmarks/compare_gpt.sh)",
}

# Seconds of one round: measured on two cores of an AMD EPYC (Zen 4).
SUITE = [
    google("tensor.kernels", 2),
    google("tensor.conv2d_max_pool2d", 1),
    google("tensor.bandwidth", 30),
    google("autograd.tape", 1),
    Program("autograd.operations", 1, ["0.02"], operation_figures, 2),
    google("nn.lstm", 1),
    model("convnet", 128),
    model("resnet18", 32),
    model("transformer", 32),
    google("optim.update", 2),
    google("comm.flight_recorder", 1),
    google("comm.latency", 5, "n"),
    google("comm.collectives", 16, "n",
           ["--benchmark_filter=^(all_reduce|all_gather|reduce_scatter|send_recv)/"
            "bytes:(4|16384|1048576|26214400)/"]),
    google("parallel.contract", 4, "n"),
    google("parallel.ddp", 17),
    google("parallel.pipeline", 28, "n"),
    google("rpc.calls", 13, "n"),
    google("rpc.autograd", 1, "n"),
    google("checkpoint.save", 5, "n"),
    google("predict.predictor", 2),
    google("train.step", 5, "n"),
    google("train.trace", 12, "n"),
    google("train.event_file", 1),
]


class Failure(Exception):
    """A sentence for the user."""


class Build:
    """The programs of one source tree."""

    def __init__(self, folder, launch):
        self.folder = pathlib.Path(folder)
        self.cache = self.read_cache()
        self.launch = shlex.split(launch) if launch else self.default_launch()

    def read_cache(self):
        path = self.folder / "build/release/CMakeCache.txt"
        if not path.exists():
            raise Failure(f"{self.folder} has no build/release. benchmarks/run.sh builds it.")
        return dict(re.findall(r"^(\w+):\w+=(.*)$", path.read_text(), re.M))

    def default_launch(self):
        mpiexec = self.cache["MPIEXEC_EXECUTABLE"]
        flags = [flag for flag in self.cache.get("LOCKSTEP_MPIEXEC_FLAGS", "").split(";") if flag]
        hydra = "HYDRA" in subprocess.run([mpiexec, "--version"], capture_output=True, text=True).stdout
        return [mpiexec, *flags, *(["-bind-to", "core"] if hydra else []), "-n"]

    def command(self, program, ranks):
        stem = program.name.split()[0]
        path = self.folder / "build/release/benchmarks" / stem.split(".")[0] / f"{stem}_bench"
        if not path.exists():
            return None
        return [*self.launch, str(ranks if program.ranks == "n" else 1), str(path), *program.arguments]

    def commit(self):
        def git(*words):
            run = subprocess.run(["git", "-C", self.folder, *words], capture_output=True, text=True)
            return run.stdout.strip()
        changed = git("status", "--porcelain", "--untracked-files=no")
        return (git("rev-parse", "HEAD") or "unknown") + (" with changes" if changed else "")

    def run(self, program, ranks, seconds_each):
        """One sample of each figure, in microseconds."""
        command = self.command(program, ranks)
        if command is None:
            raise Failure("this build does not have it")
        with tempfile.TemporaryDirectory() as scratch:
            report = pathlib.Path(scratch) / "report.json"
            if program.reads is google_figures:
                command += [f"--benchmark_min_time={seconds_each}", f"--benchmark_out={report}",
                            "--benchmark_out_format=json"]
            environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
            limit = 60 + 10 * program.seconds
            try:
                run = subprocess.run(command, capture_output=True, text=True, timeout=limit,
                                     env=environment, stdin=subprocess.DEVNULL)
            except subprocess.TimeoutExpired:
                raise Failure(f"it ran longer than {limit} s") from None
            except OSError as error:
                raise Failure(f"cannot start {command[0]}: {error.strerror}") from None
            if run.returncode != 0:
                lines = (run.stderr + run.stdout).strip().splitlines()
                raise Failure(f"exit code {run.returncode}: {lines[-1] if lines else 'no output'}")
            try:
                figures = program.reads(run.stdout, report.read_text() if report.exists() else "")
            except (ValueError, KeyError, TypeError) as error:
                raise Failure(f"its output cannot be read: {error}") from None
        if not figures:
            raise Failure("it measured nothing")
        return figures


def machine():
    """Properties that must be equal for two results to be compared."""
    cpuinfo = pathlib.Path("/proc/cpuinfo")
    names = re.findall(r"^model name\s*: (.*)$", cpuinfo.read_text(), re.M) if cpuinfo.exists() else []
    flags = re.findall(r"^flags\s*: (.*)$", cpuinfo.read_text(), re.M) if cpuinfo.exists() else []
    widest = [f for f in ("avx512f", "avx2", "avx") if flags and f in flags[0].split()]
    return {"processor": names[0] if names else platform.processor() or platform.machine(),
            "vectors": widest[0] if widest else "", "cores": len(os.sched_getaffinity(0))}


class Results:
    """Samples by figure, of one build on one machine."""

    def __init__(self, commit, ranks, seconds_each):
        self.about = {"format": FORMAT, "commit": commit, "machine": machine(),
                      "host": platform.node(), "kernel": platform.release(), "ranks": ranks,
                      "seconds_each": seconds_each,
                      "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds")}
        self.samples = collections.defaultdict(list)
        self.failed = {}

    def add(self, program, figures):
        for name, value in figures.items():
            self.samples[f"{program.name}/{name}"].append(value)

    def write(self, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.about | {"unit": "us", "failed": self.failed, "samples": self.samples},
                          indent=1)
        temporary = path.with_name(path.name + ".tmp")
        temporary.write_text(text + "\n")
        temporary.replace(path)

    @staticmethod
    def read(path):
        try:
            content = json.loads(pathlib.Path(path).read_text())
            if content["format"] != FORMAT:
                raise Failure(f"{path} has format {content['format']}; this version reads {FORMAT}.")
            results = Results.__new__(Results)
            results.samples, results.failed = content.pop("samples"), content.pop("failed")
            results.about = content
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise Failure(f"{path} is not a file of this suite's results: {error}.") from None
        return results


def check_comparable(old, new):
    """Throws where two results say nothing about each other."""
    for key, label in (("machine", "machine"), ("ranks", "number of ranks"), ("seconds_each", "--seconds-each")):
        if old.about[key] != new.about[key]:
            raise Failure(f"The results cannot be compared: their {label} differs ({old.about[key]}, "
                          f"now {new.about[key]}).")


Change = collections.namedtuple("Change", "figure old new ratio moved")


def changes(old, new):
    """Every figure that both sides have. ratio: new time over old."""
    found = []
    for figure, before in old.items():
        after = new.get(figure)
        if not after:
            continue
        a, b = statistics.median(before), statistics.median(after)
        apart = max(before) < min(after) or max(after) < min(before)
        enough = min(len(before), len(after)) >= 3
        found.append(Change(figure, a, b, b / a, enough and apart and abs(b / a - 1) > LEAST_DIFFERENCE))
    return found


def table_of(found, old, new):
    """Text: the figures that moved, slower ones first, and each program's mean."""
    lines = []
    moved = sorted((c for c in found if c.moved), key=lambda c: -c.ratio)
    if moved:
        width = max(len(c.figure) for c in moved)
        lines.append(f"{'figure':{width}}  {'before us':>11}  {'after us':>11}  {'ratio':>6}  spread of both")
        for c in moved:
            spreads = ", ".join(f"{100 * spread(s[c.figure]):.0f} %" for s in (old, new))
            lines.append(f"{c.figure:{width}}  {c.old:11.4g}  {c.new:11.4g}  {c.ratio:6.3f}  {spreads}")
    slower = sum(c.ratio > 1 for c in moved)
    lines.append(f"{len(found)} figures compared: {slower} slower, {len(moved) - slower} faster, "
                 f"{len(found) - len(moved)} within their scatter.")
    by_program = collections.defaultdict(list)
    for c in found:
        by_program[c.figure.split("/")[0]].append(c.ratio)
    for program, ratios in by_program.items():
        lines.append(f"  {program:26} {statistics.geometric_mean(ratios):6.3f}  mean of {len(ratios)} ratios after/before")
    return "\n".join(lines)


def spread(samples):
    return (max(samples) - min(samples)) / statistics.median(samples)


def summary_of(results):
    lines = []
    is_repeated = any(len(samples) > 1 for samples in results.samples.values())
    by_program = collections.defaultdict(list)
    for figure, samples in results.samples.items():
        by_program[figure.split("/")[0]].append(spread(samples))
    for program, spreads in by_program.items():
        words = f"spread {100 * statistics.median(spreads):.0f} % (median)" if is_repeated else "one sample of each"
        lines.append(f"  {program:26} {len(spreads):3} figures, {words}")
    return "\n".join(lines)


def measure(builds, programs, options, outputs):
    """Runs the rounds; returns the results of each build. Writes the outputs after every round."""
    results = [Results(build.commit(), options.ranks, options.seconds_each) for build in builds]
    for round_number in range(options.rounds):
        order = list(range(len(builds)))
        if round_number % 2:
            order.reverse()
        for program in programs:
            if any(program.name in r.failed for r in results):
                continue
            for side in order:
                label = (", before", ", after")[side] if len(builds) > 1 else ""
                print(f"round {round_number + 1}/{options.rounds}  {program.name}{label}", file=sys.stderr)
                try:
                    results[side].add(program, builds[side].run(program, options.ranks, options.seconds_each))
                except Failure as failure:
                    results[side].failed[program.name] = str(failure)
                    print(f"{program.name} failed: {failure}.", file=sys.stderr)
        for result, path in zip(results, outputs):
            result.write(path)
    return results


def options_of(arguments):
    parser = argparse.ArgumentParser(
        prog="benchmarks/run.sh", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Runs the benchmarks as a suite and says which figures moved.",
        epilog="exit codes: 0 measured; 1 a program failed, or a figure got slower and --fail-if-slower was given; 2 wrong arguments")
    parser.add_argument("--against", metavar="COMMIT|FILE", help="compare with a commit, in turn in one run, or with kept results")
    parser.add_argument("--rounds", type=int, help="samples of each figure (3; with a commit 5)")
    parser.add_argument("--only", metavar="REGEX", default="", help="programs whose name matches")
    parser.add_argument("--ranks", type=int, default=2, help="ranks of the programs that communicate (2)")
    parser.add_argument("--launch", metavar="WORDS", help="starts ranks, with their number after it, e.g. 'srun --ntasks' (mpiexec)")
    parser.add_argument("--seconds-each", type=float, default=0.05, help="least time of each row of Google Benchmark (0.05)")
    parser.add_argument("--output", metavar="FILE", type=pathlib.Path, help="results (build/benchmarks/HOST.json)")
    parser.add_argument("--fail-if-slower", action="store_true", help="exit code 1 if a figure moved to slower")
    parser.add_argument("--list", action="store_true", help="the programs, with seconds a round")
    parser.add_argument("--compare", nargs=2, metavar=("OLD", "NEW"), help="compare two kept files; runs nothing")
    parser.add_argument("--other", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.rounds is None:
        options.rounds = 5 if options.other else 3
    if options.rounds < 1 or options.ranks < 1 or not options.seconds_each > 0:
        parser.error("--rounds, --ranks and --seconds-each have to be positive.")
    try:
        re.compile(options.only)
    except re.error as error:
        parser.error(f"--only: '{options.only}' is not a regular expression: {error}.")
    return options


def compare(old, new, fail_if_slower):
    check_comparable(old, new)
    found = changes(old.samples, new.samples)
    if not found:
        raise Failure("The two results have no figure in common.")
    print(f"before  {old.about['commit']}, {old.about['date']}\nafter   {new.about['commit']}, {new.about['date']}")
    print(table_of(found, old.samples, new.samples))
    return 1 if fail_if_slower and any(c.moved and c.ratio > 1 for c in found) else 0


def main(arguments):
    options = options_of(arguments)
    if options.compare:
        old, new = (Results.read(path) for path in options.compare)
        return compare(old, new, options.fail_if_slower)
    programs = [program for program in SUITE if re.search(options.only, program.name)]
    if not programs:
        raise Failure(f"No program matches '{options.only}'. The programs: {', '.join(p.name for p in SUITE)}.")
    if options.list:
        for program in programs:
            ranks = options.ranks if program.ranks == "n" else 1
            print(f"{program.name:26} {ranks} {'rank ' if ranks == 1 else 'ranks'}  {program.seconds:3} s a round")
        for name, reason in LEFT_OUT.items():
            print(f"{name:26} left out: {reason}")
        return 0

    kept = Results.read(options.against) if options.against and not options.other else None
    builds = [Build(folder, options.launch) for folder in ((options.other, ".") if options.other else (".",))]
    output = options.output or pathlib.Path(f"build/benchmarks/{platform.node()}.json")
    outputs = [output.with_name(output.stem + ".before.json"), output] if options.other else [output]
    if kept and output.exists() and output.samefile(options.against):
        raise Failure(f"--output would overwrite {options.against}. Name another file.")
    minutes = options.rounds * len(builds) * sum(program.seconds for program in programs) / 60
    print(f"{len(programs)} programs, {options.rounds} rounds: about {minutes:.0f} minutes", file=sys.stderr)
    if kept:
        check_comparable(kept, Results("", options.ranks, options.seconds_each))
    results = measure(builds, programs, options, outputs)

    code = 0
    if options.other:
        code = compare(*results, options.fail_if_slower)
    elif kept:
        print("The two were not measured in one run: other load or another clock may have moved all figures.")
        code = compare(kept, results[0], options.fail_if_slower)
    else:
        print(summary_of(results[0]))
    print("results " + ", ".join(map(str, outputs)))
    for name, reason in {n: r for result in results for n, r in result.failed.items()}.items():
        print(f"{name} failed: {reason}.")
        code = 1
    return code


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Failure as failure:
        print(f"benchmarks/run.sh: {failure}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
