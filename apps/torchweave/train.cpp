// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"
#include "half_arithmetic.hpp"
#include "keys_without_effect.hpp"
#include "memory_svg.hpp"
#include "print_settings.hpp"
#include "rehearsal.hpp"
#include "report_iterations.hpp"
#include "shapes_in_errors.hpp"
#include "train_setup.hpp"

#include <torch/optim/optimizer.h>

#include <iostream>
#include <tw/base/error.hpp>
#include <tw/base/file.hpp>
#include <tw/base/log.hpp>
#include <tw/base/terminal.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/backend.hpp>
#include <tw/comm/device.hpp>
#include <tw/comm/mesh.hpp>
#include <tw/comm/threads.hpp>
#include <tw/mpi/environment.hpp>
#include <tw/mpi/topology.hpp>
#include <tw/train/console.hpp>
#include <tw/train/metrics_log.hpp>
#include <tw/train/trainer.hpp>

namespace tw::tool {
namespace {

struct TrainArguments {
  std::string config;
  std::vector<std::string> settings;
  std::string data;
  std::string device;
  std::string trace;
  bool resume = false;
  bool fresh = false;
  bool dry_run = false;
};

TrainConfig read_config(const TrainArguments& arguments, bool print) {
  Config config = Config::from_file(arguments.config);
  for (const std::string& setting : arguments.settings) config.set(setting);
  if (!arguments.data.empty()) config.set_text("data.directory", arguments.data, "--data");
  if (!arguments.device.empty()) config.set_text("model.device", arguments.device, "--device");
  TrainConfig read = read_train_config(config);
  read.run.trace = arguments.trace;
  read.run.resume = arguments.resume ? train::Resume::resume : arguments.fresh ? train::Resume::fresh : train::Resume::refuse;
  if (print) {
    print_settings(config);
    for (const std::string& key : keys_without_effect(config)) log_warning(key);
    const bool guesses = read.model.name == "residual" && read.layers.guess == layer_parallel::Guess::previous;
    if (arguments.resume && guesses) {
      log_warning("layer_parallel.guess = \"previous\": checkpoints do not hold the solutions of earlier passes. The resumed ",
                  "run begins without them, so its results are not bit for bit those of an uninterrupted run");
    }
  }
  return read;
}

// Selects the backends of `comm` and of the communicators that are derived from it.
void select_backends_for(const TrainConfig& config, const Communicator& comm) {
  const algorithms::Cluster cluster = cluster_of(comm);
  if (!config.mesh.selection.empty()) {
    const std::vector<std::string> backends = backend_names(comm);
    select_backends(comm, on_all_ranks(comm, "reading the selection of backends",
                                       [&] { return algorithms::Selection::from_file(config.mesh.selection, cluster, backends); }));
  }
  const std::string selected = selection(comm).to_text();
  if (comm.rank() == 0 && cluster.nodes > 1) log_info("backends across ", cluster.nodes, " nodes:\n", selected);
}

// Writes memory.svg, in the run's folder.
void draw_memory(std::ostream& out, const TrainConfig& config, const Communicator& comm, const train::StepMemory& step) {
  const std::filesystem::path path = config.run.folder() / "memory.svg";
  on_all_ranks(comm, "drawing the memory of a step", [&] {
    if (comm.rank() != 0) return;
    replace_file(path, memory_svg(step));
  });
  if (comm.rank() == 0) out << "  memory chart   " << path.string() << " shows what rank " << step.rank << " held in one step\n";
}

void run_train(const TrainArguments& arguments, Session& session) {
  TrainConfig config = read_config(arguments, session.is_first());
  const Communicator comm = session.mpi().world().dup();
  const bool first = comm.rank() == 0;
  watch(session.mpi(), config.stall);
  select_backends_for(config, comm);
  const Mesh mesh = make_train_mesh(config, comm);
  const c10::Device device = device_of_rank(comm, config.model.device);
  const Topology topology = find_topology(comm);
  set_threads_per_rank(topology);
  if (first && topology.nodes > 1) log_info(mesh.layout());
  TrainSetup setup = make_train_setup(config, mesh, open_data(config.data), device);
  if (arguments.dry_run) {
    std::ostream nowhere(nullptr);
    if (sample_coordinate(mesh) == 0) rehearse(config, std::move(setup), mesh, first ? std::cout : nowhere);
    return;
  }
  if (first) std::cout << setup.explanation;
  if (first && device.is_cpu()) {
    if (const std::string slow = why_slow(config.run.precision.compute); !slow.empty()) log_warning(slow);
  }
  train::Trainer trainer = make_trainer(config, setup, mesh);
  std::optional<train::Console> console;
  std::optional<train::MetricsLog> metrics;
  on_all_ranks(comm, "opening the run's folder", [&] {
    if (!first) return;
    trainer.add(metrics.emplace(config.run));
    trainer.add(console.emplace(std::cout, output_is_terminal(), setup.unit));
  });
  train::Summary summary;
  with_shapes_in_errors(config, *setup.data.train_set, [&] { summary = trainer.run(); });
  if (summary.step_memory) draw_memory(std::cout, config, comm, *summary.step_memory);
  if (setup.layers && !summary.diverged) report_iterations(std::cout, config, setup, trainer, mesh);
  if (!summary.finished) throw CLI::RuntimeError(summary.diverged ? ExitCode::diverged : ExitCode::unfinished);
}

}  // namespace

void add_train(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<TrainArguments>();
  CLI::App* command = app.add_subcommand("train", "Train a network on all ranks");
  command->add_option("config", arguments->config, "TOML file of the configuration")->required();
  command->add_option("--set", arguments->settings, "key=value: replaces a value of the file; may be repeated")->allow_extra_args(false);
  command->add_option("--data", arguments->data, "Directory of the data; the same as --set data.directory=DIR");
  command->add_option("--device", arguments->device, "cpu, cuda or auto; the same as --set model.device=DEVICE");
  auto* resume = command->add_flag("--resume", arguments->resume, "Continue the run of this name, on any number of ranks; start it if there is none");
  command->add_flag("--fresh", arguments->fresh, "Start over, and discard an unfinished run of this name")->excludes(resume);
  command->add_flag("--dry-run", arguments->dry_run, "Check the configuration, data, model and memory without training");
  command->add_option("--trace", arguments->trace, "Write a timeline of all ranks to this file, for ui.perfetto.dev or about:tracing");
  command->footer(R"(Keys of the configuration: torchweave keys

Exit codes
  0   the run is done, or early stopping ended it
  1   an error ended the run
  2   a loss or gradient that is not finite ended the run (non_finite = "stop")
  75  SIGTERM or SIGUSR1 ended the run early: continue it with --resume)");
  command->callback([arguments, &session] { run_train(*arguments, session); });
}

}  // namespace tw::tool
