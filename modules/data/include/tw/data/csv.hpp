// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>
#include <vector>

namespace tw {

enum class CsvHeader {
  automatic,  ///< the first line is a header if none of its fields is a number; an error if only some are, or if one looks like a value (NA, true)
  present,
  absent,
};

struct CsvOptions {
  char delimiter = ',';
  CsvHeader header = CsvHeader::automatic;
};

/// Numbers in rows and columns.
struct CsvTable {
  at::Tensor values;                 ///< float64 [rows, columns]
  std::vector<std::string> columns;  ///< their names; empty where there is no header
};

/// Reads numbers separated by `delimiter`, one row per line (LF or CRLF). Blanks around fields are skipped, and so are blank lines; lines of empty
/// fields are not. A field may be in double quotes (a doubled quote stands for one), but must end on its line. "nan" and "inf" are numbers. A first
/// line that numbers the columns (0, 1, 2) is read as data, with a warning.
/// @throws ContractError for a delimiter that occurs in numbers, quotes or line ends; FileError naming every malformed row (the first 20 in full) by
/// line and byte offset. The exception's own offset is that of the first such row.
CsvTable read_csv(const std::filesystem::path& path, const CsvOptions& options = {});

}  // namespace tw
