// SPDX-License-Identifier: Apache-2.0
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/data/csv.hpp>
#include <tw/data/regression.hpp>
#include <tw/data/sharded_dataset.hpp>
#include <tw/data/tensor_dataset.hpp>

namespace tw {

std::unique_ptr<Dataset> load_regression(const std::filesystem::path& directory, Split split) {
  const auto folder = directory / (split == Split::train ? "train" : "test");
  const auto inputs = folder / "inputs.csv";
  const auto targets = folder / "targets.csv";
  if (!std::filesystem::exists(inputs) && !std::filesystem::exists(targets)) return std::make_unique<ShardedDataset>(folder);
  const CsvTable x = read_csv(inputs);
  const CsvTable y = read_csv(targets);
  if (x.values.size(0) != y.values.size(0)) {
    throw FileError(targets, 0, concat("holds ", y.values.size(0), " rows, but inputs.csv holds ", x.values.size(0)));
  }
  return std::make_unique<TensorDataset>(x.values, y.values, TensorDatasetOptions{.name = folder.string()});
}

}  // namespace tw
