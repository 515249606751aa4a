# SPDX-License-Identifier: Apache-2.0
# What Optuna's samplers come to on the tables of tests/accept/tables, for accept_tables to be compared with: medians over seeds of the regret after half
# of the trials and after all of them, and means. Needs a Python with optuna. Run: optuna_tables.py FOLDER [SEEDS] [TRIALS]
import math
import pathlib
import statistics
import sys
import warnings

import optuna

samplers = {
    "random": lambda seed: optuna.samplers.RandomSampler(seed=seed),
    "tpe": lambda seed: optuna.samplers.TPESampler(seed=seed),
    "tpe, joint": lambda seed: optuna.samplers.TPESampler(seed=seed, multivariate=True, group=True),
}


def column_of(line):
    """Name, kind, levels and condition, as tests/accept/table.hpp has them."""
    name, kind, *words = line.split()
    at = words.index("when") if "when" in words else len(words)
    return name, kind, words[:at], words[at + 1 :]


class Table:
    def __init__(self, path):
        head, rows = path.read_text().split("\n\n")
        self.columns = [column_of(line) for line in head.splitlines()]
        self.losses = {}
        for row in rows.splitlines():
            *levels, loss = row.split()
            self.losses[tuple(levels)] = float(loss)
        self.minimum = min(loss for loss in self.losses.values() if not math.isnan(loss))

    def __call__(self, trial):
        mixture, texts = {(): 1.0}, {}
        for name, kind, levels, condition in self.columns:
            if condition and texts.get(condition[0]) not in condition[1:]:
                shares = {"-": 1.0}
            elif kind == "log":
                shares = between(trial, name, [float(level) for level in levels])
            else:
                index = index_of(trial, name, kind, levels)
                texts[name], shares = levels[index], {str(index): 1.0}
            mixture = {key + (level,): w * share for key, w in mixture.items() for level, share in shares.items()}
        return sum(w * self.losses[key] for key, w in mixture.items())


def between(trial, name, numbers):
    value = trial.suggest_float(name, numbers[0], numbers[-1], log=True)
    upper = min(sum(number < value for number in numbers), len(numbers) - 1)
    if upper == 0 or value == numbers[upper]:
        return {str(upper): 1.0}
    share = math.log(value / numbers[upper - 1]) / math.log(numbers[upper] / numbers[upper - 1])
    return {str(upper - 1): 1 - share, str(upper): share}


def index_of(trial, name, kind, levels):
    if kind == "categorical":
        return levels.index(trial.suggest_categorical(name, levels))
    if kind == "integer":
        return levels.index(str(trial.suggest_int(name, int(levels[0]), int(levels[-1]))))
    return trial.suggest_int(name, 0, len(levels) - 1)  # it has no ordinal ones; as a number of the level they keep their order


def regrets(table, sampler, trials):
    study = optuna.create_study(sampler=sampler)
    study.optimize(table, n_trials=trials)
    losses = [math.inf if t.value is None else t.value for t in study.trials]
    return min(losses[: trials // 2]) - table.minimum, min(losses) - table.minimum


folder = pathlib.Path(sys.argv[1])
seeds = int(sys.argv[2]) if len(sys.argv) > 2 else 40
trials = int(sys.argv[3]) if len(sys.argv) > 3 else 100
optuna.logging.set_verbosity(optuna.logging.CRITICAL)
warnings.simplefilter("ignore")
print(f"Optuna {optuna.__version__}, {seeds} seeds, regret after {trials // 2} and {trials} trials: medians, means")
for path in sorted(folder.glob("*.txt")):
    table = Table(path)
    for name, sampler in samplers.items():
        half, full = zip(*(regrets(table, sampler(seed), trials) for seed in range(seeds)))
        figures = [f(values) for f in (statistics.median, statistics.mean) for values in (half, full)]
        print(f"{path.stem:12} {name:12}", *(f"{figure:.4f}" for figure in figures), flush=True)
