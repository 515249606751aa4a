// SPDX-License-Identifier: Apache-2.0
#include <tw/pipeline/measured_profile.hpp>

#include <ATen/ops/cat.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/base/numbers.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/objects.hpp>
#include <tw/comm/typed_objects.hpp>
#include <tw/graph/dry_run.hpp>
#include <tw/mpi/revoke_on_exception.hpp>

#include "measured_units.hpp"
#include "profile_cache.hpp"

namespace tw::pipeline {
namespace {

using graph::Graph;
using graph::Piece;
using graph::Value;
using Bind = std::function<at::Tensor(const std::string& name)>;
using Tensors = std::vector<at::Tensor>;

constexpr const char* profiling = "profiling the model";

void add_once(std::vector<int>& list, int value) {
  if (std::ranges::find(list, value) == list.end()) list.push_back(value);
}

/// The line through two points. If it would fall, returns the constant line through the first point; if it would begin below zero, the proportional
/// one.
Affine line(double rows, double cost, double other_rows, double other_cost) {
  const double per_row = std::clamp((cost - other_cost) / (rows - other_rows), 0.0, cost / rows);
  return {.fixed = std::max(0.0, cost - per_row * rows), .per_row = per_row};
}

/// A unique, recognisable name: "4 addmm relu head".
std::string name_of(const Graph& graph, const Piece& piece, size_t unit) {
  std::string name = std::to_string(unit);
  for (size_t i = 0; i < piece.nodes.size() && i < 4; ++i) {
    const std::string& op = graph.nodes[at(piece.nodes[i])].op;
    const std::string brief = op.substr(op.rfind(':') + 1);
    if (brief != "t") name += ' ' + brief;
  }
  if (!piece.tensors.empty()) {
    const std::string& tensor = graph.values[at(piece.tensors[0])].name;
    name += ' ' + tensor.substr(0, tensor.rfind('.'));
  }
  return name;
}

double bytes_of(const Value& value, int64_t rows) {
  auto bytes = static_cast<double>(c10::elementSize(value.dtype));
  for (const graph::Size& size : value.sizes) bytes *= static_cast<double>(size.of(rows));
  return bytes;
}

/// Costs of all units, and the bytes that they save, with an example's rows and with half of them.
struct Measured {
  std::vector<UnitCosts> more;
  std::vector<UnitCosts> fewer;
  std::vector<double> saved_of_more;
  std::vector<double> saved_of_fewer;

  static constexpr size_t figures = 8;  // numbers for each unit

  void append_to(nlohmann::json& list, size_t unit) const {
    for (const UnitCosts& costs : {more[unit], fewer[unit]}) {
      for (const double each : {costs.forward_s, costs.backward_s, costs.weights_s, costs.workspace_bytes}) list.push_back(each);
    }
  }
  void take(const nlohmann::json& list, size_t unit) {
    const auto each = [&](size_t i) { return list.at(unit * figures + i).get<double>(); };
    more[unit] = {.forward_s = each(0), .backward_s = each(1), .weights_s = each(2), .workspace_bytes = each(3)};
    fewer[unit] = {.forward_s = each(4), .backward_s = each(5), .weights_s = each(6), .workspace_bytes = each(7)};
  }
};

/// The units to measure, and the example they run on.
class Measurement {
 public:
  Measurement(const Graph& graph, const Bind& bind, const Tensors& example) : graph_(graph), units_(graph, bind), more_(example) {
    while (more_[0].size(0) < 2 * graph.min_rows) {
      for (at::Tensor& each : more_) each = at::cat({each, each});
    }
    rows_ = more_[0].size(0);
    fewer_rows_ = rows_ / 2;
    for (const at::Tensor& each : more_) fewer_.push_back(each.narrow(0, 0, fewer_rows_));
  }

  MeasuredUnits& units() { return units_; }

  Measured costs(const std::vector<bool>& wanted, int repetitions) const {
    const c10::AutoGradMode gradients(true);
    units_.costs(fewer_, wanted, 1);  // the first call of an operator in LibTorch is slow
    return {units_.costs(more_, wanted, repetitions), units_.costs(fewer_, wanted, repetitions), units_.saved_bytes(more_),
            units_.saved_bytes(fewer_)};
  }

  Profile profile(const Measured& measured) const;

 private:
  Affine through(double cost, double fewer_cost) const {
    return line(static_cast<double>(rows_), cost, static_cast<double>(fewer_rows_), fewer_cost);
  }
  Affine bytes(const std::vector<int>& values) const {
    double all = 0;
    double fewer_all = 0;
    for (const int value : values) {
      all += bytes_of(graph_.values[at(value)], rows_);
      fewer_all += bytes_of(graph_.values[at(value)], fewer_rows_);
    }
    return through(all, fewer_all);
  }

  const Graph& graph_;
  MeasuredUnits units_;
  Tensors more_;
  Tensors fewer_;
  int64_t rows_ = 0;
  int64_t fewer_rows_ = 0;
};

Profile Measurement::profile(const Measured& measured) const {
  const std::vector<Piece>& pieces = units_.pieces();
  Profile profile{.hash = graph_.hash(), .input_bytes = bytes(graph_.inputs), .operators = {}, .parameters = {}, .outputs = {}};
  std::map<int, int> parameter;  // index of the parameter, by value
  std::vector<int> unit_of(graph_.values.size(), -1);
  std::set<int> is_held;  // values that a product's weights' half needs
  for (size_t u = 0; u < pieces.size(); ++u) {
    ProfiledOperator made;
    made.name = name_of(graph_, pieces[u], u);
    for (const int input : pieces[u].inputs) add_once(made.inputs, unit_of[at(input)]);
    for (const int tensor : pieces[u].tensors) {
      const Value& value = graph_.values[at(tensor)];
      if (value.kind != Value::Kind::parameter) continue;
      const auto [found, is_new] = parameter.emplace(tensor, static_cast<int>(profile.parameters.size()));
      if (is_new) profile.parameters.push_back({value.name, bytes_of(value, rows_)});
      made.parameters.push_back(found->second);
    }
    for (const int output : pieces[u].outputs) unit_of[at(output)] = static_cast<int>(u);
    const UnitCosts& more = measured.more[u];
    const UnitCosts& fewer = measured.fewer[u];
    made.forward = through(more.forward_s, fewer.forward_s);
    made.backward = through(more.backward_s, fewer.backward_s);
    made.weights = through(more.weights_s, fewer.weights_s);
    made.output_bytes = bytes(pieces[u].outputs);
    made.saved_bytes = through(measured.saved_of_more[u], measured.saved_of_fewer[u]);
    made.workspace_bytes = through(more.workspace_bytes, fewer.workspace_bytes);
    if (units_.has_products(u)) {
      std::vector<int> held = pieces[u].outputs;  // cotangents
      for (const int input : pieces[u].inputs) {
        if (is_held.insert(input).second) held.push_back(input);
      }
      made.waiting_bytes = bytes(held);
    }
    profile.operators.push_back(std::move(made));
  }
  for (const int output : graph_.outputs) add_once(profile.outputs, unit_of[at(output)]);
  profile.validate();
  return profile;
}

/// By rank of `comm`: the first of the ranks with which it holds slices, or itself. Collective over both.
/// @throws ContractError unless `comm` has all ranks that hold slices together
std::vector<int> first_holders(const Communicator& comm, const Communicator* slices) {
  std::vector<int> first(at(comm.size()));
  std::iota(first.begin(), first.end(), 0);
  if (slices == nullptr) return first;
  first = allgather_objects(comm, broadcast_object(*slices, int{comm.rank()}, Rank(0)));
  for (const int each : first) {
    const auto here = std::ranges::count(first, each);
    TW_EXPECTS(here == slices->size(), "'", comm.name(), "' has ", here, " of the ", slices->size(), " ranks of '", slices->name(),
               "', which hold split layers together: pass the communicator of the whole mesh");
  }
  return first;
}

/// Each rank measures its share; rank 0's profile has the bytes. Ranks that hold slices together measure together.
Profile profile_of_all(const Communicator& comm, const Graph& graph, const Bind& bind, const Tensors& example, const MeasureOptions& options) {
  const std::vector<int> first = first_holders(comm, options.slices);
  std::vector<int> measuring_groups = first;
  std::ranges::sort(measuring_groups);
  measuring_groups.erase(std::ranges::unique(measuring_groups).begin(), measuring_groups.end());
  const auto measurement = on_all_ranks(comm, profiling, [&] { return std::make_unique<Measurement>(graph, bind, example); });
  MeasuredUnits& units = measurement->units();
  if (options.slices != nullptr) units.set_kinds(broadcast_object(*options.slices, units.kinds(), Rank(0)));
  std::vector<int> ranks = measuring_ranks(units.forms(), static_cast<int>(measuring_groups.size()));
  for (int& rank : ranks) rank = measuring_groups[at(rank)];
  std::vector<bool> wanted;
  for (const int rank : ranks) wanted.push_back(rank == first[at(comm.rank())]);
  const auto costs = [&] { return measurement->costs(wanted, options.repetitions); };
  Measured measured =
      on_all_ranks(comm, profiling, [&] { return options.slices == nullptr ? costs() : revoke_on_exception(*options.slices, costs); });
  nlohmann::json mine = nlohmann::json::array();
  for (size_t u = 0; u < ranks.size(); ++u) measured.append_to(mine, u);
  const std::vector<std::string> all = allgather_strings(comm, mine.dump());
  const std::string made = on_all_ranks(comm, profiling, [&] {
    if (comm.rank() != 0) return std::string();
    std::vector<nlohmann::json> lists;
    for (const std::string& each : all) lists.push_back(nlohmann::json::parse(each));
    for (size_t u = 0; u < ranks.size(); ++u) measured.take(lists[at(ranks[u])], u);
    return to_json(measurement->profile(measured));
  });
  return profile_from_json(broadcast_string(comm, made, Rank(0)));
}

/// The cache for a measurement by this number of ranks, of which `slices` communicate.
ProfileCache cache_of(const Graph& graph, const Bind& bind, const Tensors& example, const MeasureOptions& options, int ranks, int slices) {
  TW_EXPECTS(options.repetitions >= 1, "a measurement needs at least one repetition, got ", options.repetitions);
  TW_EXPECTS(example.size() == graph.inputs.size() && !example.empty(), "the graph takes ", graph.inputs.size(), " tensors, but the example has ",
             example.size());
  return {options.cache, graph, bind, example[0].device().type(), ranks, slices, example[0].size(0)};
}

}  // namespace

Profile measured_profile(const Graph& graph, const Bind& bind, const Tensors& example, const MeasureOptions& options) {
  const ProfileCache cache = cache_of(graph, bind, example, options, 1, 1);
  if (std::optional<Profile> known = cache.read()) return *known;
  const graph::DryRun dry;
  Measurement measurement(graph, bind, example);
  return cache.keep(measurement.profile(measurement.costs(std::vector<bool>(measurement.units().pieces().size(), true), options.repetitions)));
}

Profile measured_profile(const Communicator& comm, const Graph& graph, const Bind& bind, const Tensors& example, const MeasureOptions& options) {
  const int slices = options.slices == nullptr ? 1 : options.slices->size();
  const auto cache = on_all_ranks(comm, profiling, [&] { return cache_of(graph, bind, example, options, comm.size(), slices); });
  const std::string known = on_all_ranks(comm, "reading a cached profile", [&] {
    const std::optional<Profile> found = comm.rank() == 0 ? cache.read() : std::nullopt;
    return found ? to_json(*found) : std::string();
  });
  const std::string of_all = broadcast_string(comm, known, Rank(0));
  if (!of_all.empty()) return profile_from_json(of_all);
  std::optional<graph::DryRun> dry;
  if (options.slices == nullptr) dry.emplace();
  const Profile made = profile_of_all(comm, graph, bind, example, options);
  const std::string kept = on_all_ranks(comm, "caching a profile", [&] { return comm.rank() == 0 ? to_json(cache.keep(made)) : std::string(); });
  return profile_from_json(broadcast_string(comm, kept, Rank(0)));
}

}  // namespace tw::pipeline
