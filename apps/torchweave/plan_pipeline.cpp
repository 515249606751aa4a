// SPDX-License-Identifier: Apache-2.0
#include "plan_pipeline.hpp"

#include <algorithm>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <tw/base/clock.hpp>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/base/replace_file.hpp>
#include <tw/base/text_stream.hpp>
#include <tw/planning/analytic.hpp>
#include <tw/planning/graph_svg.hpp>
#include <tw/planning/planner.hpp>

#include "measured_model.hpp"
#include "model_kinds.hpp"

namespace tw::tool {
namespace {

using namespace pipeline;

struct Arguments {
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
constexpr int64_t most_measured_rows = 32;  // unless the user wants more

std::string content_of(const std::string& path) {
  const std::ifstream file(path);
  if (!file) throw FileError(path, 0, "cannot be opened");
  TextWriter content;
  content << file.rdbuf();
  return std::move(content).str();
}

void write_file(const std::string& path, const std::string& content) {
  if (!path.empty()) replace_file(path, content);
}

bool is_measured(const Arguments& a) { return a.profile == "measured"; }

MeasuredModelOptions measured_options_of(const Arguments& a) {
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
          .rows = a.measured_rows.value_or(std::min(a.options.batch, most_measured_rows)),
          .cache = a.cache};
}

Profile analytic_profile(const Arguments& a) {
  if (a.model == "mlp") return mlp_profile(a.hidden, a.layers, a.hidden, a.hidden, a.rates);
  if (a.model == "transformer") {
    if (a.width % a.heads != 0) throw CLI::ValidationError("--heads", concat("must divide the width ", a.width, ", got ", a.heads));
    return transformer_profile(a.blocks.value_or(transformer_blocks), a.width, a.heads, a.sequence, a.vocabulary, a.rates);
  }
  return profile_from_json(content_of(a.model));
}

Cluster cluster_of(const Arguments& a) {
  const Link link{.latency_s = 1e-6 * a.link_us, .bytes_per_second = 1e9 / 8 * a.link_gbps};
  Cluster cluster{.devices = a.devices, .between_stages = link, .within_stage = link};
  if (a.memory > 0) cluster.memory_bytes = static_cast<double>(a.memory);
  return cluster;
}

/// "a, b, c"
std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

/// "a,b,c" as names.
std::vector<std::string> names_of(const std::string& list) {
  std::vector<std::string> names;
  TextReader in(list);
  for (std::string name; std::getline(in, name, ',');) names.push_back(name);
  return names;
}

void print_model(const Arguments& a, const Profile& profile) {
  double bytes = 0;
  for (const ProfiledParameter& parameter : profile.parameters) bytes += parameter.bytes;
  std::cout << a.model << ": " << profile.operators.size() << " operators, parameters of " << static_cast<int64_t>(bytes) << " bytes\n";
}

/// Verifies a plan that a person may have edited, and predicts it.
Plan loaded_plan(const Arguments& a, const Profile& profile, const Cluster& cluster) {
  Plan plan = predicted(plan_from_json(content_of(a.load), profile, cluster.devices), profile, cluster, a.options.parameters);
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const double excess = plan.stages[i].figures.memory.total() - cluster.memory_bytes;
    if (excess > 0) throw Error(concat(a.load, ": stage ", i, " needs ", static_cast<int64_t>(excess), " bytes more than a device has"));
  }
  std::cout << describe(plan, profile);
  return plan;
}

Plan found_plan(const Arguments& a, const Profile& profile, const Cluster& cluster) {
  const Stopwatch watch;
  const PlanResult result = plan(profile, cluster, a.options);
  const double seconds = watch.elapsed().count();
  std::cout << (a.explain ? explain(result) : describe(result.best(), profile));
  std::cout << "found in " << seconds << " s\n";
  return result.best();
}

/// What options say together. @throws CLI::ValidationError
void check(const Arguments& a) {
  if (a.options.micro_batches && *a.options.micro_batches > a.options.batch) {
    throw CLI::ValidationError("--micro-batches", concat("must be at most the batch of ", a.options.batch, ", got ", *a.options.micro_batches));
  }
  if (is_measured(a) && !can_be_measured(a.model)) {
    throw CLI::ValidationError(
        "--profile", concat(listed(models_that(&ModelKind::is_measured)), " and TorchScript files, NAME.pt, can be measured; ", a.model, " cannot"));
  }
  if (is_measured(a)) return;
  if (const ModelKind* kind = find_model_kind(a.model); is_torchscript_file(a.model) || (kind != nullptr && !kind->has_analytic_profile)) {
    throw CLI::ValidationError("--profile", concat("there is no analytic one of ", a.model, "; pass measured"));
  }
  if (a.show_graph) throw CLI::ValidationError("--show-graph", "an analytic profile has no graph; pass --profile measured");
}

/// All ranks measure a model; the first one plans.
void run(Session& session, Arguments a) {
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

void add_model_options(CLI::Option_group& group, Arguments& a) {
  const CLI::Range size(int64_t{1}, int64_t{1} << 30);
  group.add_option("--profile", a.profile, "analytic: FLOPs and bytes over --flops and --bandwidth; or measured: here, by all ranks")
      ->check(CLI::IsMember({"analytic", "measured"}));
  group.add_option("--flops", a.rates.flops_per_second, "Of a device, a second; by default 1e13")->check(CLI::PositiveNumber);
  group.add_option("--bandwidth", a.rates.bytes_per_second, "Of a device's memory, in bytes a second; by default 1e12")->check(CLI::PositiveNumber);
  group.add_option("--hidden", a.hidden, "Neurons of an MLP's layers, also of its input and output; by default 512")->check(size);
  group.add_option("--layers", a.layers, "Of an MLP; by default 10")->check(size);
  group.add_option("--blocks", a.blocks, "Of a transformer or gpt, by default 12; of a resnet, a stage, by default 1")->check(size);
  group.add_option("--width", a.width, "Of a transformer or gpt; by default 768")->check(size);
  group.add_option("--heads", a.heads, "Of a transformer or gpt; by default 12")->check(size);
  group.add_option("--sequence", a.sequence, "Tokens in a transformer's or gpt's sequence; by default 1024")->check(size);
  group.add_option("--vocabulary", a.vocabulary, "Of a transformer or gpt; by default 50257")->check(size);
}

void add_measured_options(CLI::Option_group& group, Arguments& a) {
  group.add_option("--input", a.input, "Measured: shape of a row, such as 1x28x28; a TorchScript file needs it");
  group.add_option("--input-dtype", a.input_dtype, "Measured: what a TorchScript file takes; by default float32")
      ->check(CLI::IsMember({"float32", "float64", "int64"}));
  group.add_option("--measured-rows", a.measured_rows, concat("Measured: rows of the example; by default the batch's, at most ", most_measured_rows))
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30));
  group.add_option("--profile-cache", a.cache, "Measured: directory for profiles, so that the same is measured once");
  group.add_flag("--show-graph", a.show_graph, "Measured: print the operators that were captured");
}

void add_cluster_options(CLI::Option_group& group, Arguments& a) {
  group.add_option("--devices", a.devices, "This many, equal ones; by default 1")->check(CLI::Range(1, 4096));
  group.add_option("--memory", a.memory, "Of a device, such as 38GB or 16GiB; by default unlimited")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true));
  group.add_option("--link-latency-us", a.link_us, "Of a message between devices; by default 5")->check(CLI::NonNegativeNumber);
  group.add_option("--link-gbps", a.link_gbps, "Gigabits a second between devices, in each direction; by default 100")->check(CLI::PositiveNumber);
}

void add_plan_options(CLI::Option_group& group, Arguments& a) {
  ParameterMemory& memory = a.options.parameters;
  group.add_option("--batch", a.options.batch, "Rows, or sequences, of a step over all devices; by default 1")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  group.add_option("--micro-batches", a.options.micro_batches, "Only this many")->check(CLI::Range(1, 1 << 20));
  group.add_option("--schedule", a.schedule, "Only this one: gpipe, 1f1b")->check(CLI::IsMember({"gpipe", "1f1b"}));
  group.add_option("--max-stages", a.options.max_stages, "At most this many")->check(CLI::Range(1, 4096));
  group.add_option("--together", a.together, "Operators that must be in one stage, with all between them: a,b")->allow_extra_args(false);
  group.add_option("--recompute", a.recompute, "What a stage may do: none, selective, full; by default any of them")
      ->delimiter(',')
      ->check(CLI::IsMember({"none", "selective", "full"}));
  group.add_option("--weight-bytes", memory.weights, "For each byte of a parameter; by default 1")->check(CLI::NonNegativeNumber);
  group.add_option("--gradient-bytes", memory.gradients, "For each byte of a parameter; by default 1")->check(CLI::NonNegativeNumber);
  group.add_option("--optimizer-bytes", memory.optimizer, "For each byte of a parameter; by default 2, which is Adam's")
      ->check(CLI::NonNegativeNumber);
  group.add_flag("--sharded-optimizer", memory.sharded_optimizer, "Replicas share the optimizer's state");
  group.add_option("--gap", a.options.gap, "A plan this share worse than the best will do; by default 0.005; 0: exact")
      ->check(CLI::Range(0.0, 0.999));
  group.add_option("--max-blocks", a.options.max_blocks, "Into which operators are put together before the search; by default 128")
      ->check(CLI::Range(1, 1 << 20));
  group.add_flag("--explain", a.explain, "Also why this plan, the next best, and which limit binds");
  group.add_option("--load", a.load, "A plan.json, perhaps edited: verified and predicted instead of searched");
  group.add_option("--output", a.output, "File for the plan, to read, edit and --load");
  group.add_option("--svg", a.svg, "File for a chart of the schedule");
  group.add_option("--svg-graph", a.svg_graph, "File for a picture of the operators, coloured by stage");
}

}  // namespace

PipelinePlanning add_pipeline_planning(CLI::App& command) {
  auto arguments = std::make_shared<Arguments>();
  CLI::Option_group& group =
      *command.add_option_group("Pipelines", "Stages, replicas and micro-batches for a model on devices that need not be there");
  CLI::Option* model =
      group.add_option("--model", arguments->model,
                       concat(listed(models_that(&ModelKind::has_analytic_profile)),
                              ", or the JSON file of a profile; measured: ", listed(models_that(&ModelKind::is_measured)), ", NAME.pt"));
  add_model_options(group, *arguments);
  add_measured_options(group, *arguments);
  add_cluster_options(group, *arguments);
  add_plan_options(group, *arguments);
  for (CLI::Option* option : group.get_options()) {
    if (option != model) option->needs(model);
  }
  return {model, [arguments](Session& session) { run(session, *arguments); }};
}

}  // namespace tw::tool
