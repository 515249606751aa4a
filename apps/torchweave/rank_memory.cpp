// SPDX-License-Identifier: Apache-2.0
#include "rank_memory.hpp"

#include <algorithm>
#include <tw/data_parallel/unit_memory.hpp>
#include <tw/gradients/bucket_plan.hpp>

namespace tw::tool {
namespace {

using train::MemoryUse;
using train::StrategyKind;

int64_t bytes_of(const Bucket& bucket) { return bucket.numel * static_cast<int64_t>(c10::elementSize(bucket.dtype)); }
int64_t bytes_of(const TensorSpec& spec) { return spec.numel() * static_cast<int64_t>(c10::elementSize(spec.dtype)); }

template <class All>
int64_t sum_of(const All& all) {
  int64_t bytes = 0;
  for (const auto& each : all) bytes += bytes_of(each);
  return bytes;
}

template <class All>
int64_t largest_of(const All& all) {
  int64_t bytes = 0;
  for (const auto& each : all) bytes = std::max(bytes, bytes_of(each));
  return bytes;
}

// As the strategy lays out gradients and, where it is fully sharded, parameters.
std::vector<Bucket> buckets_of(const train::StrategyOptions& strategy, int ranks, const ModelMemory& model) {
  if (model.trained.empty()) return {};
  BucketOptions options;
  if (strategy.kind == StrategyKind::fully_sharded) options = {strategy.unit_bytes, strategy.unit_bytes};
  const bool in_slices = strategy.kind == StrategyKind::fully_sharded || strategy.kind == StrategyKind::sharded;
  return plan_buckets(model.trained, options, {.slices = in_slices ? ranks : 1}).buckets;
}

bool releases(const train::StrategyOptions& strategy) {
  return strategy.kind == StrategyKind::fully_sharded || (strategy.kind == StrategyKind::sharded && strategy.release_gradients);
}

// Of `data`: what compression left over of a step.
bool has_residuals(const train::StrategyOptions& strategy) {
  return strategy.compression == train::CompressionKind::top_k || strategy.compression == train::CompressionKind::power_sgd;
}

// Copies of the parameters that a worker keeps.
int64_t worker_copies(const train::StrategyOptions& strategy) {
  return strategy.algorithm == train::ServerAlgorithm::downpour || strategy.algorithm == train::ServerAlgorithm::ssp ? 1 : 0;
}

// Copies of the parameters that an exchange with servers makes on its way.
int64_t exchange_copies(const train::StrategyOptions& strategy) { return strategy.algorithm == train::ServerAlgorithm::ssp ? 2 : 3; }

}  // namespace

// Ranks that train alone write what they have each; the others share it out.
int64_t checkpoint_memory(const train::StrategyOptions& strategy, int ranks, const ModelMemory& model) {
  constexpr int64_t least = int64_t{2} << 20;
  const int64_t n = sum_of(model.trained) + model.frozen_bytes;
  const int64_t state = model.state_tensors * sum_of(model.trained);
  switch (strategy.kind) {
    case StrategyKind::local_sgd: return std::max(least, n + state);
    case StrategyKind::diloco: return std::max(least, n + state + (strategy.outer_momentum > 0 ? 2 : 1) * n / ranks);
    case StrategyKind::parameter_server: return std::max(least, n + state + n / ranks);
    case StrategyKind::data: return std::max(least, (n + state) / ranks + (has_residuals(strategy) ? sum_of(model.trained) : 0));
    default: return std::max(least, (n + state) / ranks);
  }
}

train::MemoryByUse kept_memory(const train::StrategyOptions& strategy, int ranks, const ModelMemory& model) {
  const std::vector<Bucket> buckets = buckets_of(strategy, ranks, model);
  const int64_t n = sum_of(model.trained);
  const int64_t padded = sum_of(buckets);
  const int64_t state = model.state_tensors * n;
  train::MemoryByUse kept;
  kept[MemoryUse::parameters] = n + model.frozen_bytes;
  kept[MemoryUse::gradients] = n;
  kept[MemoryUse::optimizer] = state;
  kept[MemoryUse::buffers] = model.buffer_bytes;
  switch (strategy.kind) {
    case StrategyKind::data:
      kept[MemoryUse::gradients] = padded;
      if (has_residuals(strategy)) kept[MemoryUse::buffers] += padded;
      break;
    case StrategyKind::sharded:
      kept[MemoryUse::parameters] = padded / (strategy.one_copy_per_node ? ranks : 1) + model.frozen_bytes;
      kept[MemoryUse::gradients] = padded / (releases(strategy) ? ranks : 1);
      kept[MemoryUse::optimizer] = state / ranks;
      if (releases(strategy)) kept[MemoryUse::buffers] += largest_of(buckets);
      break;
    case StrategyKind::fully_sharded: {
      std::vector<int64_t> units;
      for (const Bucket& bucket : buckets) units.push_back(bytes_of(bucket));
      const int64_t gathered = strategy.one_copy_per_node ? 0 : room_for_units(units, strategy.prefetch_units, strategy.resident_bytes);
      kept[MemoryUse::parameters] = (padded + model.frozen_bytes) / ranks;
      kept[MemoryUse::gradients] = padded / ranks;
      kept[MemoryUse::optimizer] = state / ranks;
      kept[MemoryUse::buffers] += gathered + largest_of(buckets);
      break;
    }
    case StrategyKind::local_sgd: kept[MemoryUse::buffers] += padded + model.buffer_bytes; break;
    case StrategyKind::diloco:
      kept[MemoryUse::optimizer] += (strategy.outer_momentum > 0 ? 2 : 1) * n;
      kept[MemoryUse::buffers] += strategy.compression == train::CompressionKind::none ? padded : padded / 2;
      break;
    case StrategyKind::parameter_server: kept[MemoryUse::buffers] += n / ranks + worker_copies(strategy) * n; break;
  }
  return kept;
}

int64_t update_memory(const train::StrategyOptions& strategy, int ranks, const ModelMemory& model) {
  const int64_t n = sum_of(model.trained);
  const bool in_slices = strategy.kind == StrategyKind::fully_sharded || strategy.kind == StrategyKind::sharded;
  const int64_t largest = largest_of(model.trained);
  const int64_t of_rule = model.passing_tensors * (in_slices ? std::min(largest, n / ranks) : largest);
  switch (strategy.kind) {
    case StrategyKind::diloco: return std::max(of_rule, 2 * largest);
    case StrategyKind::parameter_server: return std::max(of_rule, exchange_copies(strategy) * n);
    case StrategyKind::data: return strategy.compression == train::CompressionKind::none ? of_rule : std::max(of_rule, n / 2);
    default: return of_rule;
  }
}

int64_t passing_buckets(const train::StrategyOptions& strategy, int ranks, const ModelMemory& model) {
  if (!releases(strategy)) return 0;
  const std::vector<Bucket> buckets = buckets_of(strategy, ranks, model);
  const auto more = std::min<int64_t>(2, static_cast<int64_t>(buckets.size()) - 1);
  return std::max<int64_t>(0, more) * largest_of(buckets);
}

}  // namespace tw::tool
