// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <filesystem>
#include <memory>
#include <span>
#include <vector>

namespace tw {

struct NpyFormat;
class MappedFile;

/// Reads a file in NPY format (NumPy's), version 1.0 to 3.0, little- or big-endian, C or Fortran order.
/// @return a contiguous CPU tensor of the file's shape; bool, integers of 8 to 64 bits with or without sign, float16, float32, float64,
///         complex64 or complex128.
/// @throws FileError naming file and offset if the file is missing, is not NPY, has elements of other types, ends early, or has trailing bytes after
/// the last element.
at::Tensor read_npy(const std::filesystem::path& path);

/// Writes `tensor`, of any shape, device and memory order, as an NPY file (version 1.0, C order). Replaces an existing file.
/// @throws FileError if the file cannot be written; ContractError for a dtype that NumPy lacks, such as bfloat16.
void write_npy(const std::filesystem::path& path, const at::Tensor& tensor);

/// An NPY file opened for reading single rows; a row is one index of the first dimension. The file is memory-mapped, so it may be larger than the
/// machine's memory. Nobody may shorten the file while it is open. Any number of threads may read.
class NpyFile {
 public:
  /// @throws FileError as read_npy() does, and for an array without dimensions.
  explicit NpyFile(const std::filesystem::path& path);
  ~NpyFile();
  NpyFile(NpyFile&&) noexcept;
  NpyFile& operator=(NpyFile&&) noexcept;

  const std::filesystem::path& path() const noexcept;
  at::ScalarType dtype() const noexcept;
  int64_t rows() const noexcept;
  /// The shape of one row: without the first dimension.
  at::IntArrayRef row_shape() const noexcept;
  int64_t row_bytes() const noexcept { return row_bytes_; }
  /// Offset in bytes at which row `row` begins in the file. In Fortran order, the offset of its first element.
  int64_t offset_of(int64_t row) const noexcept;

  /// Copies row `row`, in C order and this machine's byte order, to the row_bytes() bytes at `out`. @param row 0 to rows() - 1, not checked.
  void copy_row(int64_t row, void* out) const noexcept;
  /// Returns the rows with these indices, in that order, as a tensor [n, ...]. @throws ContractError for a row that does not exist.
  at::Tensor read_rows(std::span<const int64_t> indices) const;

 private:
  std::unique_ptr<MappedFile> file_;
  std::unique_ptr<NpyFormat> format_;
  int64_t row_bytes_ = 0;
};

}  // namespace tw
