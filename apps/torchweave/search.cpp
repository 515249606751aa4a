// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/base/exact_text.hpp>
#include <tw/base/file.hpp>
#include <tw/base/log.hpp>
#include <tw/base/number_text.hpp>
#include <tw/base/progress_bar.hpp>
#include <tw/comm/objects.hpp>
#include <tw/comm/threads.hpp>
#include <tw/mpi/environment.hpp>
#include <tw/mpi/topology.hpp>
#include <tw/search/report.hpp>
#include <tw/search/search.hpp>

#include "command_objective.hpp"
#include "command_template.hpp"
#include "keys_without_effect.hpp"
#include "print_settings.hpp"
#include "search_commands.hpp"
#include "search_config.hpp"
#include "search_folder.hpp"
#include "search_task.hpp"
#include "search_winner.hpp"
#include "training_objective.hpp"
#include "trial_meshes.hpp"

namespace tw::tool {
namespace {

using search::SearchResult;
using search::Space;

struct SearchArguments {
  std::string config;
  std::string space;
  std::vector<std::string> settings;
  std::string data;
  std::string device;
  CommandOptions command = {};
  bool fresh = false;
  bool status = false;
  std::vector<std::string> enqueued = {};
};

/// @throws ConfigError for each training key: with --command, trials run a program.
void expect_no_training(const Config& training) {
  std::vector<std::string> problems;
  for (const std::string& key : training.keys())
    problems.push_back(concat("--set ", key, ": with --command, only keys that begin with \"search.\" are valid"));
  if (!problems.empty()) throw ConfigError(std::move(problems));
}

SearchTask task_of(const CommandOptions& options, const Space& space) {
  const CommandObjective objective(space, options);
  SearchTask task;
  task.objective = objective;
  task.identity = options.command + '\n';
  for (const std::string& each : options.constraints) task.identity += "constraint " + each + '\n';
  task.loss = "as reported by the program";
  task.command_line = [objective, space](const std::vector<double>& values, const std::string& /*file*/) {
    return objective.command_for(space, values);
  };
  task.toml = [space](const std::vector<double>& values) {
    Config best;
    for (const auto& [name, text] : settings_of(space, values)) best.set(concat(name, '=', text));
    return best.toml();
  };
  return task;
}

/// Refuses meshes that would make trials fail, before the first one begins. TrainingObjective checks the rest of the training.
void expect_meshes(const TrainingOptions& training, const search::SearchOptions& options, const Space& space) {
  Config config = training.base;
  config.overlay(training.settings);
  TrainConfig fixed;
  config.bind(fixed);
  std::vector<std::string> problems = problems_of_meshes(space, fixed, options);
  if (!problems.empty()) throw ConfigError(std::move(problems));
}

/// "--set key=value" for each setting.
std::string as_settings(const Config& settings) {
  std::string text;
  for (const std::string& each : settings.assignments()) text += " --set " + shell_word(each);
  return text;
}

SearchTask task_of(const TrainingOptions& options, const std::filesystem::path& base, const Space& space) {
  const auto objective = std::make_shared<TrainingObjective>(space, options);
  SearchTask task;
  task.objective = [objective](const search::Configuration& configuration, search::Trial& trial) { return (*objective)(configuration, trial); };
  task.loss = concat(joined(objective->objectives()), " on the validation set, in the best of its epochs");
  task.test = [objective, space](const std::vector<double>& values, const Communicator& comm, const std::string& run) {
    return objective->test(space, values, comm, run);
  };
  task.steps = objective->epochs();
  task.stall = objective->stall();
  Config fixed = options.base;
  fixed.overlay(options.settings);
  task.identity = task.loss + '\n' + fixed.toml();
  task.command_line = [=](const std::vector<double>& values, const std::string& file) {
    if (base.empty()) return file.empty() ? std::string("torchweave train, with the settings above") : "torchweave train " + shell_word(file);
    Config changes = options.settings;
    for (const auto& [name, text] : settings_of(space, values)) changes.set(concat(name, '=', text));
    return concat("torchweave train ", shell_word(base.string()), as_settings(changes));
  };
  task.toml = [=](const std::vector<double>& values) {
    Config best = objective->config_for(space, values);
    best.set_text("name", options.folder.parent_path().filename().string() + "_best", "");  // so that it has its own run
    return best.toml();
  };
  return task;
}

/// The first failure of the first rank that has one; empty if there is none. Collective.
std::string first_failure(const Communicator& comm, const SearchResult& result) {
  for (const std::string& each : allgather_strings(comm, result.first_failure)) {
    if (!each.empty()) return each;
  }
  return "";
}

/// Prints a line for each trial of the Pareto front, up to 20; the report has all of them.
void print_front(const std::vector<search::Individual>& front, const std::vector<std::string>& names) {
  constexpr size_t most = 20;
  std::cout << "  front        Pareto-optimal trials by " << joined(names) << ": " << front.size() << '\n';
  for (size_t i = 0; i < std::min(most, front.size()); ++i) {
    std::cout << "    trial " << front[i].trial << ':';
    for (size_t k = 0; k < names.size(); ++k) std::cout << ' ' << names[k] << ' ' << brief_text(front[i].objectives[k], 6);
    std::cout << '\n';
  }
}

void print(const SearchResult& result, const SearchTask& task, const SearchConfig& config, const Space& space, const std::string& failure) {
  std::cout << "search: " << result.complete << " complete, " << result.pruned << " pruned, " << result.failed << " failed, " << result.infeasible
            << " infeasible; in " << format_duration(Seconds(result.seconds)) << ", workers " << std::lround(100 * result.busy) << " % busy\n";
  if (!failure.empty()) std::cout << "  failure      " << failure << '\n';
  if (result.best.trial < 0) return;
  if (result.front.size() > 1 || !result.best.objectives.empty()) print_front(result.front, config.options.objectives);
  std::cout << "  best         trial " << result.best.trial << ", "
            << (config.options.objectives.empty() ? "loss" : config.options.objectives.front()) << ' ' << brief_text(result.best.loss, 10) << " ("
            << task.loss << ")\n";
  for (const auto& [name, text] : settings_of(space, result.best.values)) std::cout << "    " << name << " = " << text << '\n';
  std::string file;
  if (!config.options.journal.empty()) {
    file = (config.options.journal / "best.toml").string();
    replace_file(
        file, concat("# Trial ", result.best.trial, ": loss ", exact_text(result.best.loss), ", ", task.loss, '\n', task.toml(result.best.values)));
    std::cout << "  written to   " << file << '\n';
  }
  std::cout << "  run it with  " << task.command_line(result.best.values, file) << std::endl;
}

/// Sets the last step of trials: they are not compared there.
void set_last_step(search::SearchOptions& options, int64_t steps) {
  if (auto* promotion = std::get_if<search::PromotionOptions>(&options.scheduler)) promotion->max_steps = std::min(promotion->max_steps, steps);
  if (auto* training = std::get_if<search::PopulationTrainingOptions>(&options.scheduler)) training->max_steps = steps;
}

void run_search(SearchArguments arguments, Session& session) {
  const bool first = session.is_first();
  const bool trains = arguments.command.command.empty();
  const std::filesystem::path file = trains ? arguments.config : arguments.space;
  Config settings = Config::from_file(file);
  Config training;
  for (const std::string& setting : arguments.settings) (setting.starts_with("search.") ? settings : training).set(setting);
  if (!arguments.data.empty()) training.set_text("data.directory", arguments.data, "--data");
  if (!arguments.device.empty()) training.set_text("model.device", arguments.device, "--device");
  if (trains) {
    Config fixed = settings.extract("search.train");
    fixed.overlay(training);
    training = fixed;
  } else {
    expect_no_training(training);
  }
  const std::filesystem::path run = std::filesystem::path("runs") / file.stem();
  SearchConfig config = read_search_config(settings, run, trains);
  if (first) {
    print_settings(settings);
    for (const std::string& key : keys_without_effect(settings)) log_warning(key);
  }
  const Communicator comm = session.mpi().world().dup();
  set_threads_per_rank(find_topology(comm));
  const Space space = space_of(config.parameters, config.starts);
  SearchTask task;
  if (trains) {
    const std::filesystem::path base = config.base.empty() ? config.base : file.parent_path() / config.base;
    const TrainingOptions options{.base = base.empty() ? Config() : Config::from_file(base),
                                  .settings = training,
                                  .objectives = config.options.objectives,
                                  .folder = (config.options.journal.empty() ? run : config.options.journal) / "trials",
                                  .ranks = comm};
    expect_meshes(options, config.options, space);
    task = task_of(options, base, space);
  } else {
    if (config.options.ranks_per_worker != 1) throw ConfigError({"search.ranks_per_worker must be 1 if trials run a program: one rank starts it"});
    if (!config.options.worker_ranks.empty()) throw ConfigError({"search.worker_ranks must be left out if trials run a program: one rank starts it"});
    arguments.command.objectives = config.options.objectives;
    arguments.command.constraints = config.constraints;
    if (config.population_training)
      throw ConfigError({"search.population_training must be left out if trials run a program, whose memory cannot be copied"});
    task = task_of(arguments.command, space);
  }
  watch(session.mpi(), task.stall);
  if (task.steps > 0) set_last_step(config.options, task.steps);
  prepare_search_folder(comm, config.options.journal, task.identity, arguments.fresh);
  search::Search search(comm, space, task.objective, config.options);
  const SearchResult result = search.run();
  const std::string failure = first_failure(comm, result);
  if (comm.rank() == 0) {
    print(result, task, config, space, failure);
    if (!config.options.journal.empty()) {
      search::write_reports(config.options.journal, space);
      std::cout << "  report       " << (config.options.journal / "report.html").string() << std::endl;
    }
  }
  if (result.best.trial < 0) throw Error(concat("no trial has a loss", failure.empty() ? "" : "; " + failure));
  const int ranks = config.options.worker_ranks.empty() ? config.options.ranks_per_worker : config.options.worker_ranks.front();
  if (task.test && config.test) test_winner(comm, task, result.best, ranks, config.options.journal);
}

/// --status and --enqueue, which take a folder and no other option.
void run_folder_command(const CLI::App& command, const SearchArguments& arguments) {
  const std::string asked = arguments.status ? "--status" : "--enqueue";
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() > 0 && !option->get_positional() && option->get_name() != asked) throw CLI::ExcludesError(asked, option->get_name());
  }
  if (arguments.config.empty()) throw CLI::RequiredError("the folder of a search");
  if (arguments.status) {
    print_search_status(arguments.config);
  } else {
    enqueue_trials(arguments.enqueued, arguments.config);
  }
}

}  // namespace

void add_search(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<SearchArguments>();
  CLI::App* command =
      app.add_subcommand("search", "Search for the configuration with the smallest loss, by workers that evaluate trials in parallel");
  auto* config = command->add_option("config", arguments->config,
                                     "TOML file with the tables [search], [search.space.NAME] and [search.train]; with --status and --enqueue, the "
                                     "folder of the search's journal");
  auto* space = command->add_option("--space", arguments->space, "TOML file of a search that runs programs: the same tables, without [search.train]")
                    ->excludes(config);
  auto* program = command->add_option(
      "--command", arguments->command.command,
      "Command to run for each configuration, instead of a training: /bin/sh -c runs it in its own process group; {NAME} stands for "
      "the value of a parameter");
  program->needs(space);
  space->needs(program);
  command->add_option("--timeout", arguments->command.timeout_s, "Seconds after which a program is ended and its trial fails")
      ->needs(program)
      ->check(CLI::PositiveNumber);
  command->add_option("--grace", arguments->command.grace_s, "Seconds between SIGTERM and SIGKILL when a program must end")
      ->needs(program)
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command
      ->add_option("--set", arguments->settings, "search.KEY=value replaces a value of the file, KEY=value a value of the training; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--data", arguments->data, "Directory of the training's data; the same as --set data.directory=DIR")->excludes(program);
  command->add_option("--device", arguments->device, "cpu, cuda or auto, for trainings; the same as --set model.device=DEVICE")->excludes(program);
  command->add_flag("--fresh", arguments->fresh, "Start over, and discard an earlier search in the journal's folder");
  command->add_flag(
      "--status", arguments->status,
      "Print the progress of the search in a folder: trials by state, the best trial, running trials, and what is left; needs no mpirun");
  command
      ->add_option("--enqueue", arguments->enqueued,
                   "Make the search in a folder try a configuration next: a JSON object, or a file with one per line; may be repeated; needs no "
                   "mpirun. A parameter that is not named gets its initial value, or else its first choice or the middle of its scale")
      ->allow_extra_args(false);
  command->footer(concat(R"(Keys of [search]: torchweave keys search

search.propagator: how configurations are proposed
)",
                         list_of_propagators(), R"(
Trainings
  [search.train]      Any keys of `torchweave train`: they replace those of the base. Trials keep no
                      checkpoints unless checkpoint.every_epochs or every_steps is among them
  NAME                Any key of `torchweave train`, such as optimizer.lr

[search.space.NAME]; quotes around a NAME with dots may be left out
  kind                "real" or "integer", with
    low, high         limits, both inclusive
    scale             "linear" or "log"
    step              real: values are low + k step
                      "ordinal" or "categorical", with
    values            a list, of ascending numbers or of names
  when.OTHER          A list: NAME exists only while parameter OTHER has one of these values

Programs
  {"loss": 0.5}       The loss, as a line of standard output; the last one counts. With
                      search.objectives = ["error", "s"] instead {"error": 0.5, "s": 3}, and with
                      search.constraints = ["bytes"] also "bytes": the configuration is
                      allowed if it is at most 0
  {"step": 3, "value": 0.7}
                      An intermediate value, for the rule that stops trials early: it sends SIGTERM to
                      the program. Steps must ascend. Other lines are ignored
  A trial fails if its program ends by a signal or with an exit code other than 0, prints no loss, or
  takes longer than --timeout. Programs do not see the variables OMPI_*, PMIX_* and PMI_*, so that
  they may be MPI programs themselves. They end when their worker ends.)"));
  command->callback([arguments, command, &session] {
    if (arguments->status || !arguments->enqueued.empty()) return run_folder_command(*command, *arguments);
    if (arguments->config.empty() && arguments->space.empty()) throw CLI::RequiredError("config, or --space with --command,");
    run_search(*arguments, session);
  });
}

}  // namespace tw::tool
