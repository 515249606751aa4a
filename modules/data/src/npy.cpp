// SPDX-License-Identifier: Apache-2.0
#include <tw/base/file.hpp>
#include "npy_format.hpp"

#include <ATen/ops/empty.h>
#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <tw/base/contract.hpp>
#include <tw/data/npy.hpp>

namespace tw {
namespace {

at::TensorOptions options_of(const NpyFormat& format) { return at::TensorOptions().dtype(format.dtype); }

// Copies row `row` of an array in Fortran order: its element (i, j, ...) lies at row + rows * (i + d1 * (j + d2 * ...)).
void copy_fortran_row(const char* data, const NpyFormat& format, int64_t row, char* out) noexcept {
  const auto& shape = format.shape;
  const int64_t size = format.element_bytes();
  const int64_t elements = shape[0] == 0 ? 0 : format.numel() / shape[0];
  for (int64_t i = 0; i < elements; ++i) {  // the i-th of the row in C order: its last index varies fastest
    int64_t at = 0;
    int64_t rest = i;
    int64_t stride = elements * shape[0];
    for (size_t dimension = shape.size(); dimension-- > 1;) {
      stride /= shape[dimension];
      at += rest % shape[dimension] * stride;
      rest /= shape[dimension];
    }
    std::memcpy(out + i * size, data + (at + row) * size, static_cast<size_t>(size));
  }
}

}  // namespace

at::Tensor read_npy(const std::filesystem::path& path) {
  const MappedFile file(path);
  const std::string_view content = file.content();
  const NpyFormat format = parse_npy(content, path);
  std::vector<int64_t> shape = format.shape;
  if (format.fortran) std::reverse(shape.begin(), shape.end());
  at::Tensor tensor = at::empty(shape, options_of(format));
  auto* data = static_cast<char*>(tensor.data_ptr());
  if (tensor.numel() > 0) std::memcpy(data, content.data() + format.offset, tensor.nbytes());
  to_native(data, tensor.numel(), format);
  if (!format.fortran) return tensor;
  std::vector<int64_t> backwards(shape.size());
  for (size_t i = 0; i < backwards.size(); ++i) backwards[i] = static_cast<int64_t>(backwards.size() - 1 - i);
  return tensor.permute(backwards).contiguous();
}

void write_npy(const std::filesystem::path& path, const at::Tensor& tensor) {
  const std::string header = npy_header(tensor.scalar_type(), tensor.sizes().vec());
  const at::Tensor plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous();
  replace_file(path, [&](const std::filesystem::path& partial) {
    FileDescriptor file(partial, O_WRONLY | O_CREAT | O_TRUNC, "cannot be written");
    file.write(header.data(), header.size());
    file.write(plain.const_data_ptr(), plain.nbytes());
  });
}

NpyFile::NpyFile(const std::filesystem::path& path)
    : file_(std::make_unique<MappedFile>(path)), format_(std::make_unique<NpyFormat>(parse_npy(file_->content(), path))) {
  if (format_->shape.empty()) throw FileError(path, 0, "the file holds a single number without dimensions, expected rows");
  row_bytes_ = format_->element_bytes();
  for (const int64_t extent : row_shape()) row_bytes_ *= extent;
}

NpyFile::~NpyFile() = default;
NpyFile::NpyFile(NpyFile&&) noexcept = default;
NpyFile& NpyFile::operator=(NpyFile&&) noexcept = default;

const std::filesystem::path& NpyFile::path() const noexcept { return file_->path(); }
at::ScalarType NpyFile::dtype() const noexcept { return format_->dtype; }
int64_t NpyFile::rows() const noexcept { return format_->shape[0]; }
at::IntArrayRef NpyFile::row_shape() const noexcept { return at::IntArrayRef(format_->shape).slice(1); }
int64_t NpyFile::offset_of(int64_t row) const noexcept { return format_->offset + row * (format_->fortran ? format_->element_bytes() : row_bytes_); }

void NpyFile::copy_row(int64_t row, void* out) const noexcept {
  if (row_bytes_ == 0) return;
  const char* data = file_->content().data() + format_->offset;
  auto* to = static_cast<char*>(out);
  if (format_->fortran) {
    copy_fortran_row(data, *format_, row, to);
  } else {
    std::memcpy(to, data + row * row_bytes_, static_cast<size_t>(row_bytes_));
  }
  to_native(to, row_bytes_ / format_->element_bytes(), *format_);
}

at::Tensor NpyFile::read_rows(std::span<const int64_t> indices) const {
  std::vector<int64_t> shape = format_->shape;
  shape[0] = static_cast<int64_t>(indices.size());
  at::Tensor out = at::empty(shape, options_of(*format_));
  auto* to = static_cast<char*>(out.data_ptr());
  for (const int64_t row : indices) {
    TW_EXPECTS(row >= 0 && row < rows(), "there is no row ", row, " in ", path().string(), "; the number of rows is ", rows());
    copy_row(row, to);
    to += row_bytes_;
  }
  return out;
}

}  // namespace tw
