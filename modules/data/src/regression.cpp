// SPDX-License-Identifier: Apache-2.0
#include <ranges>
#include <set>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/data/csv.hpp>
#include <tw/data/regression.hpp>
#include <tw/data/sharded_dataset.hpp>
#include <tw/data/tensor_dataset.hpp>

namespace tw {

namespace {

namespace fs = std::filesystem;

struct Found {
  bool csv = false;
  bool npy = false;
  std::string names;  // of the first few files
};

Found look_into(const fs::path& folder) {
  constexpr size_t max_named = 5;
  Found found;
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename().string());
  for (const std::string& name : names) {
    const bool is_ours = name.starts_with("inputs") || name.starts_with("targets");
    found.csv = found.csv || name == "inputs.csv" || name == "targets.csv";
    found.npy = found.npy || (is_ours && name.ends_with(".npy"));
  }
  found.names = joined(names | std::views::take(max_named));
  if (names.size() > max_named) found.names += concat(" and ", names.size() - max_named, " more");
  return found;
}

}  // namespace

std::unique_ptr<Dataset> load_regression(const fs::path& directory, Split split, const CsvOptions& csv) {
  const auto folder = directory / (split == Split::train ? "train" : "test");
  if (!fs::is_directory(folder)) {
    throw FileError(folder, 0, "this is not a folder; regression data must be in the folders train and test of data.directory");
  }
  const Found found = look_into(folder);
  const std::string wanted = "inputs.csv and targets.csv, or pairs of NPY files such as inputs.npy and targets.npy";
  if (found.csv && found.npy) throw FileError(folder, 0, concat("the folder holds both CSV and NPY files; keep one kind: ", wanted));
  if (!found.csv && !found.npy)
    throw FileError(folder, 0, concat("the folder must hold ", wanted, "; it holds ", found.names.empty() ? "nothing" : found.names));
  if (found.npy) return std::make_unique<ShardedDataset>(folder);
  const auto inputs = folder / "inputs.csv";
  const auto targets = folder / "targets.csv";
  const CsvTable x = read_csv(inputs, csv);
  const CsvTable y = read_csv(targets, csv);
  if (x.values.size(0) != y.values.size(0)) {
    throw FileError(targets, 0, concat("the file holds ", y.values.size(0), " rows, but inputs.csv holds ", x.values.size(0)));
  }
  return std::make_unique<TensorDataset>(x.values, y.values, TensorDatasetOptions{.name = folder.string()});
}

}  // namespace tw
