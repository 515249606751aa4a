// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>
#include <vector>

namespace tw {

enum class CsvHeader {
  /// The first line is a header if none of its fields is a number. It is an error if only some fields are numbers, or if none is a number but one
  /// looks like a value (NA, true).
  automatic,
  present,
  absent,
};

struct CsvOptions {
  char delimiter = ',';
  CsvHeader header = CsvHeader::automatic;
};

/// The numbers of a CSV file, in rows and columns.
struct CsvTable {
  at::Tensor values;                 ///< float64 [rows, columns]
  std::vector<std::string> columns;  ///< names of the columns; empty if there is no header
};

/// Reads numbers separated by `delimiter`, one row per line (LF or CRLF). Blanks around fields and blank lines are ignored; a line of empty fields is
/// an error. A field may be in double quotes, in which a doubled quote stands for one. It must end on the line on which it begins. "nan" and "inf"
/// are numbers. With CsvHeader::automatic, a first line that numbers the columns (0, 1, 2) is read as data, and a warning is logged.
/// @throws ContractError if the delimiter is a letter, a digit, one of . + - and ", a line end, or a zero byte
/// @throws FileError if the file cannot be opened, if there is neither a header nor a number, if CsvHeader::automatic cannot decide, or if rows are
/// malformed. The message then lists the first 20 malformed rows by line and byte offset, and counts the others. FileError::offset() is the first
/// offset listed.
CsvTable read_csv(const std::filesystem::path& path, const CsvOptions& options = {});

}  // namespace tw
