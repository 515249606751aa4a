// SPDX-License-Identifier: Apache-2.0
#include "trial_meshes.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <tw/base/concat.hpp>
#include <tw/base/config.hpp>

namespace tw::tool {
namespace {

using search::Parameter;
using search::Space;

bool is_axis(const std::string& key) { return key == "mesh.data" || key == "mesh.shard" || key == "mesh.layer" || key == "mesh.stage"; }

/// Whether the planner's stages depend on a key of the training. Keys model.* are left out: they change the shapes of tensors anyway.
bool changes_stages(const std::string& key) {
  return key == "batch_size" || key == "global_batch" || key == "accumulation" || key.starts_with("pipeline.");
}

/// The values of a parameter, up to a limit; of a continuous one its ends.
std::vector<double> values_of(const Parameter& parameter) {
  constexpr int64_t limit = 1024;
  if (parameter.count() == 0) return {parameter.low, parameter.high};
  const double first = parameter.has_choices() ? 0 : parameter.low;
  const double step = parameter.kind == Parameter::Kind::real ? parameter.step : 1;
  std::vector<double> values;
  for (int64_t i = 0; i < std::min(limit, parameter.count()); ++i) values.push_back(first + static_cast<double>(i) * step);
  return values;
}

/// The meshes of the configurations in a space.
class Meshes {
 public:
  Meshes(const Space& space, const MeshOptions& fixed) : space_(space), fixed_(fixed), matters_(space.size(), false) {
    for (size_t i = space.size(); i-- > 0;) {
      const Parameter& parameter = space.parameters()[i];
      matters_[i] = matters_[i] || is_axis(parameter.name);
      if (matters_[i] && !parameter.parent.empty()) matters_[space.index_of(parameter.parent)] = true;
    }
  }

  /// Returns the first mesh for which `holds`.
  std::optional<MeshOptions> find(const std::function<bool(const MeshOptions&)>& holds) const {
    std::vector<double> values(space_.size(), std::numeric_limits<double>::quiet_NaN());
    return find_from(0, values, holds);
  }

 private:
  std::optional<MeshOptions> find_from(size_t index, std::vector<double>& values, const std::function<bool(const MeshOptions&)>& holds) const {
    if (index == space_.size()) {
      const MeshOptions mesh = mesh_of(values);
      return holds(mesh) ? std::optional(mesh) : std::nullopt;
    }
    if (!matters_[index] || !space_.exists(index, values)) return find_from(index + 1, values, holds);
    for (const double value : values_of(space_.parameters()[index])) {
      values[index] = value;
      if (auto found = find_from(index + 1, values, holds)) return found;
    }
    values[index] = std::numeric_limits<double>::quiet_NaN();
    return std::nullopt;
  }

  MeshOptions mesh_of(const std::vector<double>& values) const {
    Config config;
    for (size_t i = 0; i < values.size(); ++i) {
      const Parameter& parameter = space_.parameters()[i];
      if (is_axis(parameter.name) && space_.exists(i, values)) config.set(concat(parameter.name, '=', parameter.text_of(values[i])), "search.space");
    }
    MeshOptions mesh = fixed_;
    ConfigBinder(config).group("mesh", mesh);
    return mesh;
  }

  const Space& space_;
  const MeshOptions& fixed_;
  std::vector<bool> matters_;  // by parameter: whether it is an axis, or decides whether one exists
};

/// The ranks that a mesh needs.
struct Need {
  int64_t ranks = 1;         ///< product of the axes whose sizes are fixed
  bool is_multiple = false;  ///< whether one axis has all remaining ranks

  explicit Need(const MeshOptions& mesh) {
    for (const MeshAxis& axis : axes_of(mesh)) {
      is_multiple = is_multiple || axis.size == -1;
      if (axis.size != -1) ranks = std::min<int64_t>(ranks * axis.size, std::numeric_limits<int>::max());
    }
  }
  bool fits(int64_t available) const { return is_multiple ? available % ranks == 0 : available == ranks; }
};

/// "mesh.shard = 2 and mesh.stage = 2": the axes whose sizes are fixed. Leaves out sizes of 1, but for `mesh.data` if no axis has the remaining
/// ranks.
std::string axes_text(const MeshOptions& mesh) {
  const bool is_multiple = Need(mesh).is_multiple;
  std::vector<std::string> texts;
  for (const MeshAxis& axis : axes_of(mesh)) {
    if (axis.size > 1 || (axis.name == "data" && !is_multiple)) texts.push_back(concat("mesh.", axis.name, " = ", axis.size));
  }
  return joined(texts, " and ");
}

std::set<int> worker_sizes(const search::SearchOptions& options) {
  if (options.worker_ranks.empty()) return {options.ranks_per_worker};
  return {options.worker_ranks.begin(), options.worker_ranks.end()};
}

void find_misfit(const Meshes& meshes, const search::SearchOptions& options, std::vector<std::string>& problems) {
  for (const int ranks : worker_sizes(options)) {
    const auto misfit = meshes.find([&](const MeshOptions& mesh) { return !Need(mesh).fits(ranks); });
    if (!misfit) continue;
    const Need need(*misfit);
    const std::string workers = options.worker_ranks.empty() ? concat("search.ranks_per_worker is ", ranks)
                                                             : concat("search.worker_ranks = [", joined(options.worker_ranks), "] has a worker of ",
                                                                      ranks, ranks == 1 ? " rank" : " ranks");
    problems.push_back(concat(axes_text(*misfit), need.is_multiple ? ": trials need a multiple of " : ": trials need exactly ", need.ranks,
                              need.ranks == 1 ? " rank" : " ranks", ", but ", workers,
                              need.is_multiple
                                  ? "; choose axes whose product divides the ranks of each worker"
                                  : "; choose axes whose product is the ranks of each worker, or mesh.data = 0 for the remaining ranks"));
  }
}

/// A trial that resumes or copies another one needs the same stages as before. Without a plan or a profile, each trial measures the model for itself.
void find_other_stages(const Space& space, const TrainConfig& fixed, const Meshes& meshes, const search::SearchOptions& options,
                       std::vector<std::string>& problems) {
  const auto* population = std::get_if<search::PopulationTrainingOptions>(&options.scheduler);
  const bool promotes = std::holds_alternative<search::PromotionOptions>(options.scheduler);
  if ((population == nullptr && !promotes) || !fixed.pipeline.plan.empty()) return;
  const auto staged = meshes.find([](const MeshOptions& mesh) { return mesh.stage > 1; });
  if (!staged) return;
  const std::string stage = concat("mesh.stage is ", staged->stage);
  if (fixed.pipeline.profile_cache.empty()) {
    problems.push_back(concat(stage,
                              promotes ? " and search.stopping is \"promotion\", but a trial that resumes"
                                       : " and search.population_training is set, but a trial that copies another one",
                              " may get other stages; set pipeline.profile_cache to a folder, or pipeline.plan to a file"));
    return;
  }
  if (population == nullptr) return;
  for (const Parameter& each : space.parameters()) {
    if (!changes_stages(each.name) || std::ranges::count(population->frozen, each.name) > 0) continue;
    problems.push_back(concat("search.space.", each.name, ": ", stage, ", and a copy with another ", each.name,
                              " may get other stages; add it to search.population_training.frozen, or set pipeline.plan to a file"));
  }
  if (worker_sizes(options).size() > 1) {
    problems.push_back(concat("search.worker_ranks is [", joined(options.worker_ranks), "] and ", stage,
                              ", but a copy on another number of ranks may get other stages; use workers of equal sizes, or set pipeline.plan to a "
                              "file"));
  }
}

}  // namespace

std::vector<std::string> problems_of_meshes(const Space& space, const TrainConfig& fixed, const search::SearchOptions& options) {
  std::vector<std::string> problems;
  if (std::holds_alternative<search::PopulationTrainingOptions>(options.scheduler)) {
    for (const Parameter& each : space.parameters()) {
      if (!is_axis(each.name)) continue;
      problems.push_back(concat("search.space.", each.name,
                                " cannot be combined with search.population_training, whose members copy tensors of equal ", "shapes; set ",
                                each.name, " in [search.train] instead"));
    }
  }
  const Meshes meshes(space, fixed.mesh);
  find_misfit(meshes, options, problems);
  find_other_stages(space, fixed, meshes, options, problems);
  return problems;
}

}  // namespace tw::tool
