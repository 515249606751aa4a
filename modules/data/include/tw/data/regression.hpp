// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <memory>
#include <tw/data/csv.hpp>
#include <tw/data/dataset.hpp>

namespace tw {

/// Opens the folder train or test of `directory`. It holds either NPY shards (see ShardedDataset), or inputs.csv and targets.csv with one row per
/// sample, float64 [n, columns], which read_csv() reads with `csv`.
/// @throws FileError naming a file that is missing, malformed or does not match its partner, or a folder that holds both kinds or neither.
/// @throws Error for NaN or infinity. With CSV, it names the folder and the row. With NPY, batch() throws it, naming the file and the row.
std::unique_ptr<Dataset> load_regression(const std::filesystem::path& directory, Split split, const CsvOptions& csv = {});

}  // namespace tw
