// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <tw/base/clock.hpp>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/base/file.hpp>
#include <tw/planning/analytic.hpp>
#include <tw/planning/graph_svg.hpp>
#include <tw/planning/planner.hpp>

#include "measured_model.hpp"
#include "model_kinds.hpp"

namespace tw::tool {
namespace {

using namespace pipeline;

struct PipelineArguments {
  std::string model;
  std::string profile = "analytic";
  int64_t hidden = 512;
  int64_t layers = 10;
  std::optional<int64_t> blocks;
  int64_t width = 768;
  int64_t heads = 12;
  int64_t sequence = 1024;
  int64_t vocabulary = 50257;
  Rates rates;
  std::string input;
  std::string input_dtype = "float32";
  std::optional<int64_t> measured_rows;
  std::string cache;
  bool show_graph = false;
  int devices = 1;
  uint64_t memory = 0;
  double link_us = 5;
  double link_gbps = 100;
  PlanOptions options;
  std::string schedule;
  std::vector<std::string> recompute;
  std::vector<std::string> together;
  bool explain = false;
  std::string load;
  std::string output;
  std::string svg;
  std::string svg_graph;
};

constexpr int64_t transformer_blocks = 12;
constexpr int64_t max_measured_rows = 32;  // unless the user wants more

void write_file(const std::string& path, const std::string& content) {
  if (!path.empty()) replace_file(path, content);
}

bool is_measured(const PipelineArguments& a) { return a.profile == "measured"; }

MeasuredModelOptions measured_options_of(const PipelineArguments& a) {
  const bool is_mlp = a.model == "mlp";
  return {.model = {.name = a.model,
                    .width = is_mlp ? a.hidden : a.width,
                    .hidden_layers = a.layers - 1,
                    .blocks = a.blocks.value_or(a.model == "resnet" ? ModelOptions().blocks : transformer_blocks),
                    .heads = a.heads,
                    .sequence = a.sequence,
                    .vocabulary = a.vocabulary},
          .input = a.input,
          .input_dtype = a.input_dtype,
          .rows = a.measured_rows.value_or(std::min(a.options.batch, max_measured_rows)),
          .cache = a.cache};
}

Profile analytic_profile(const PipelineArguments& a) {
  if (a.model == "mlp") return mlp_profile(a.hidden, a.layers, a.hidden, a.hidden, a.rates);
  if (a.model == "transformer") {
    if (a.width % a.heads != 0) throw CLI::ValidationError("--heads", concat("must divide the width ", a.width, ", got ", a.heads));
    return transformer_profile(a.blocks.value_or(transformer_blocks), a.width, a.heads, a.sequence, a.vocabulary, a.rates);
  }
  return profile_from_json(read_file(a.model));
}

Cluster cluster_of(const PipelineArguments& a) {
  const Link link{.latency_s = 1e-6 * a.link_us, .bytes_per_second = 1e9 / 8 * a.link_gbps};
  Cluster cluster{.devices = a.devices, .between_stages = link, .within_stage = link};
  if (a.memory > 0) cluster.memory_bytes = static_cast<double>(a.memory);
  return cluster;
}

/// The names in "a,b,c".
std::vector<std::string> names_of(const std::string& list) {
  std::vector<std::string> names;
  TextReader in(list);
  for (std::string name; std::getline(in, name, ',');) names.push_back(name);
  return names;
}

/// The names of all schedules.
std::vector<std::string> schedules() {
  std::vector<std::string> names;
  for (const auto& [name, kind] : schedule_names()) names.push_back(name);
  return names;
}

void print_model(const PipelineArguments& a, const Profile& profile) {
  double bytes = 0;
  for (const ProfiledParameter& parameter : profile.parameters) bytes += parameter.bytes;
  std::cout << a.model << ": " << profile.operators.size() << " operators, parameters of " << static_cast<int64_t>(bytes) << " bytes\n";
}

/// Verifies a plan from a file, which the user may have edited, and predicts its figures.
Plan loaded_plan(const PipelineArguments& a, const Profile& profile, const Cluster& cluster) {
  Plan plan = predicted(plan_from_json(read_file(a.load), profile, cluster.devices), profile, cluster, a.options.parameters);
  const std::vector<double> memory = device_memory(plan);
  const char* what = stages_per_device(plan.schedule) == 1 ? ": stage " : ": device ";
  for (size_t i = 0; i < memory.size(); ++i) {
    const double excess = memory[i] - cluster.memory_bytes;
    if (excess > 0) throw Error(concat(a.load, what, i, " needs ", static_cast<int64_t>(excess), " bytes more than a device has"));
  }
  std::cout << describe(plan, profile);
  return plan;
}

Plan found_plan(const PipelineArguments& a, const Profile& profile, const Cluster& cluster) {
  const Stopwatch watch;
  const PlanResult result = plan(profile, cluster, a.options);
  const double seconds = watch.elapsed().count();
  std::cout << (a.explain ? explain(result) : describe(result.best(), profile));
  std::cout << "found in " << seconds << " s\n";
  return result.best();
}

/// Checks options that depend on each other. @throws CLI::ValidationError
void check(const PipelineArguments& a) {
  if (a.options.micro_batches && *a.options.micro_batches > a.options.batch) {
    throw CLI::ValidationError("--micro-batches", concat("must be at most the batch of ", a.options.batch, ", got ", *a.options.micro_batches));
  }
  if (is_measured(a) && !can_be_measured(a.model)) {
    throw CLI::ValidationError(
        "--profile", concat(joined(models_that(&ModelKind::is_measured)), " and TorchScript files, NAME.pt, can be measured; ", a.model, " cannot"));
  }
  if (is_measured(a)) return;
  if (const ModelKind* kind = find_model_kind(a.model); is_torchscript_file(a.model) || (kind != nullptr && !kind->has_analytic_profile)) {
    throw CLI::ValidationError("--profile", concat("there is no analytic profile of ", a.model, "; pass --profile measured"));
  }
  if (a.show_graph) throw CLI::ValidationError("--show-graph", "an analytic profile has no graph; pass --profile measured");
}

/// All ranks measure a model; the first one plans.
void plan_pipeline(Session& session, PipelineArguments a) {
  check(a);
  if (!is_measured(a) && !session.is_first()) return;
  for (const auto& [name, schedule] : schedule_names()) {
    if (name == a.schedule) a.options.schedule = schedule;
  }
  if (!a.recompute.empty()) a.options.recompute.clear();
  for (const auto& [name, recompute] : recompute_names()) {
    if (std::ranges::count(a.recompute, name) > 0) a.options.recompute.push_back(recompute);
  }
  for (const std::string& list : a.together) a.options.together.push_back(names_of(list));
  const MeasuredModel model = is_measured(a) ? measured_model(session.mpi().world(), measured_options_of(a)) : MeasuredModel{{}, analytic_profile(a)};
  if (!session.is_first()) return;
  if (a.show_graph) std::cout << to_text(model.graph);
  const Profile& profile = model.profile;
  const Cluster cluster = cluster_of(a);
  print_model(a, profile);
  const Plan best = a.load.empty() ? found_plan(a, profile, cluster) : loaded_plan(a, profile, cluster);
  write_file(a.output, to_json(best, profile));
  write_file(a.svg, gantt_svg(simulation_of(best)));
  if (!a.svg_graph.empty()) write_file(a.svg_graph, graph_svg(profile, best));
}

void add_model_options(CLI::App& command, PipelineArguments& a) {
  const CLI::Range size(int64_t{1}, int64_t{1} << 30);
  command
      .add_option("--model", a.model,
                  concat(joined(models_that(&ModelKind::has_analytic_profile)),
                         ", or the JSON file of a profile; with --profile measured: ", joined(models_that(&ModelKind::is_measured)), ", NAME.pt"))
      ->required();
  command
      .add_option("--profile", a.profile, "analytic: computed from FLOPs, bytes, --flops and --bandwidth; measured: on this machine, by all ranks")
      ->check(CLI::IsMember({"analytic", "measured"}));
  command.add_option("--flops", a.rates.flops_per_second, "Floating-point operations of a device per second; by default 1e13")
      ->check(CLI::PositiveNumber);
  command.add_option("--bandwidth", a.rates.bytes_per_second, "Memory bandwidth of a device in bytes per second; by default 1e12")
      ->check(CLI::PositiveNumber);
  command.add_option("--hidden", a.hidden, "Width of all layers of an MLP; by default 512")->check(size);
  command.add_option("--layers", a.layers, "Layers of an MLP; by default 10")->check(size);
  command.add_option("--blocks", a.blocks, "Blocks of a transformer or gpt, by default 12; blocks of a resnet's stage, by default 1")->check(size);
  command.add_option("--width", a.width, "Width of a transformer or gpt; by default 768")->check(size);
  command.add_option("--heads", a.heads, "Heads of a transformer or gpt; by default 12")->check(size);
  command.add_option("--sequence", a.sequence, "Tokens in a sequence of a transformer or gpt; by default 1024")->check(size);
  command.add_option("--vocabulary", a.vocabulary, "Vocabulary of a transformer or gpt; by default 50257")->check(size);
}

void add_measured_options(CLI::App& command, PipelineArguments& a) {
  command.add_option("--input", a.input, "Measured: shape of a row, such as 1x28x28; required for a TorchScript file");
  command.add_option("--input-dtype", a.input_dtype, "Measured: input type of a TorchScript file; by default float32")
      ->check(CLI::IsMember({"float32", "float64", "int64"}));
  command
      .add_option("--measured-rows", a.measured_rows,
                  concat("Measured: rows of the example; by default those of the batch, at most ", max_measured_rows))
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30));
  command.add_option("--profile-cache", a.cache, "Measured: folder that keeps profiles for later runs");
  command.add_flag("--show-graph", a.show_graph, "Measured: print the captured operators");
}

void add_cluster_options(CLI::App& command, PipelineArguments& a) {
  command.add_option("--devices", a.devices, "Number of equal devices; by default 1")->check(CLI::Range(1, 4096));
  command.add_option("--memory", a.memory, "Memory of a device, such as 38GB or 16GiB; by default unlimited")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true));
  command.add_option("--link-latency-us", a.link_us, "Latency of a message between devices; by default 5")->check(CLI::NonNegativeNumber);
  command.add_option("--link-gbps", a.link_gbps, "Gigabits per second between devices, in each direction; by default 100")
      ->check(CLI::PositiveNumber);
}

void add_plan_options(CLI::App& command, PipelineArguments& a) {
  ParameterMemory& memory = a.options.parameters;
  command.add_option("--batch", a.options.batch, "Rows, or sequences, in a step of all devices; by default 1")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  command.add_option("--micro-batches", a.options.micro_batches, "Only this number of micro-batches")->check(CLI::Range(1, 1 << 20));
  command.add_option("--schedule", a.schedule, "Only this schedule; by default the planner's choice of all")->check(CLI::IsMember(schedules()));
  command.add_option("--max-stages", a.options.max_stages, "Maximum number of stages, or of devices in a row if each has several stages")
      ->check(CLI::Range(1, 4096));
  command.add_option("--together", a.together, "First and last of a range of operators that must be in one stage: a,b")->allow_extra_args(false);
  command.add_option("--recompute", a.recompute, "Recomputation that a stage may use: none, selective, full; by default any of them")
      ->delimiter(',')
      ->check(CLI::IsMember({"none", "selective", "full"}));
  command.add_option("--weight-bytes", memory.weights, "Bytes of weights per byte of a parameter; by default 1")->check(CLI::NonNegativeNumber);
  command.add_option("--gradient-bytes", memory.gradients, "Bytes of gradients per byte of a parameter; by default 1")->check(CLI::NonNegativeNumber);
  command.add_option("--optimizer-bytes", memory.optimizer, "Bytes of the optimizer's state per byte of a parameter; by default 2, as of Adam")
      ->check(CLI::NonNegativeNumber);
  command.add_flag("--sharded-optimizer", memory.sharded_optimizer, "Divide the optimizer's state among the replicas of a stage");
  command.add_option("--gap", a.options.gap, "Accepted distance from the best plan, as a share; by default 0.005; 0: exact")
      ->check(CLI::Range(0.0, 0.999));
  command.add_option("--max-blocks", a.options.max_blocks, "Number of blocks into which operators are grouped before the search; by default 128")
      ->check(CLI::Range(1, 1 << 20));
  command.add_flag("--explain", a.explain, "Also print why this plan is the best, the next best plans, and which limit binds");
  command.add_option("--load", a.load, "File of a plan, which you may have edited, to verify and predict instead of searching for a plan");
  command.add_option("--output", a.output, "File for the plan, to read, edit and --load");
  command.add_option("--svg", a.svg, "File for a chart of the schedule");
  command.add_option("--svg-graph", a.svg_graph, "File for a picture of the operators, coloured by stage");
}

}  // namespace

void add_plan_pipeline(CLI::App& plan, Session& session) {
  CLI::App* command = plan.add_subcommand("pipeline", "Plan stages, replicas and micro-batches for a model, on devices that need not be present");
  auto arguments = std::make_shared<PipelineArguments>();
  add_model_options(*command, *arguments);
  add_measured_options(*command, *arguments);
  add_cluster_options(*command, *arguments);
  add_plan_options(*command, *arguments);
  command->callback([arguments, &session] { plan_pipeline(session, *arguments); });
}

}  // namespace tw::tool
