// SPDX-License-Identifier: Apache-2.0
#include "train_rows.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

namespace tw::tool {

Batch first_samples(const Dataset& dataset, int64_t count, c10::Device device) {
  std::vector<int64_t> indices(static_cast<size_t>(std::min(count, dataset.size())));
  std::iota(indices.begin(), indices.end(), int64_t{0});
  const Batch batch = dataset.batch(indices);
  return {batch.inputs.to(device), batch.targets.to(device)};
}

int64_t global_batch_of(const TrainConfig& config, int ranks) {
  return config.run.global_batch > 0 ? config.run.global_batch : config.run.batch_size * ranks;
}

int64_t rows_of_a_pass(const TrainConfig& config, int ranks) { return config.run.rows_of_a_pass(global_batch_of(config, ranks), ranks); }

}  // namespace tw::tool
