// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <memory>
#include <tw/data/csv.hpp>
#include <tw/data/dataset.hpp>

namespace tw {

/// Opens `directory`/train or `directory`/test, which holds either NPY shards (see ShardedDataset), or inputs.csv and targets.csv with one row per
/// sample (float64 [n, columns]; `csv` is passed to read_csv()).
/// @throws FileError naming a file that is missing, malformed or does not match its partner, or a folder that holds both kinds or neither.
/// @throws Error for NaN or infinity, naming the row and its folder (CSV) or file (NPY; thrown when the row is read).
std::unique_ptr<Dataset> load_regression(const std::filesystem::path& directory, Split split, const CsvOptions& csv = {});

}  // namespace tw
