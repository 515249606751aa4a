// SPDX-License-Identifier: Apache-2.0
#include "gzip_reader.hpp"

#include <ATen/ops/empty.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <tw/data/idx.hpp>

namespace tw {
namespace {

// From the third byte of an IDX file. Ref: http://yann.lecun.com/exdb/mnist, "the IDX file format".
at::ScalarType dtype_of(uint8_t code, const GzipReader& reader) {
  switch (code) {
    case 0x08: return at::kByte;
    case 0x09: return at::kChar;
    case 0x0B: return at::kShort;
    case 0x0C: return at::kInt;
    case 0x0D: return at::kFloat;
    case 0x0E: return at::kDouble;
    default: reader.fail("not an IDX file: unknown element type in byte 2");
  }
}

// IDX is big-endian; all supported machines are little-endian.
void swap_bytes(char* data, int64_t count, size_t size) {
  for (int64_t i = 0; i < count; ++i) std::reverse(data + i * static_cast<int64_t>(size), data + (i + 1) * static_cast<int64_t>(size));
}

// The operating system zeroes fresh memory page by page as it is touched, which costs a tenth of the time of inflating into it. Large pages make that
// cheap. Only a hint.
void hint_large_pages(void* data, int64_t bytes) {
  constexpr int64_t page = 4096;
  const auto to_page = (page - static_cast<int64_t>(reinterpret_cast<uintptr_t>(data) % page)) % page;
  const int64_t whole = (bytes - to_page) / page * page;
  if (whole > 0) madvise(static_cast<char*>(data) + to_page, static_cast<size_t>(whole), MADV_HUGEPAGE);
}

}  // namespace

at::Tensor read_idx(const std::filesystem::path& path) {
  GzipReader reader(path);
  std::array<uint8_t, 4> magic{};
  reader.read(magic.data(), 4);
  if (magic[0] != 0 || magic[1] != 0) reader.fail("not an IDX file: it must begin with two zero bytes");
  const at::ScalarType dtype = dtype_of(magic[2], reader);
  if (magic[3] == 0) reader.fail("not an IDX file: it has no dimension");

  std::vector<int64_t> shape;
  int64_t numel = 1;
  int64_t extent = static_cast<int64_t>(c10::elementSize(dtype));  // bytes, ignoring zeros, since a tensor's strides must fit too
  for (int dimension = 0; dimension < magic[3]; ++dimension) {
    std::array<uint8_t, 4> bytes{};
    reader.read(bytes.data(), 4);
    shape.push_back((int64_t{bytes[0]} << 24) | (bytes[1] << 16) | (bytes[2] << 8) | bytes[3]);
    if (__builtin_mul_overflow(extent, std::max<int64_t>(shape.back(), 1), &extent)) reader.fail("the dimensions are too large");
    numel *= shape.back();
  }
  const auto size = static_cast<int64_t>(c10::elementSize(dtype));
  // Checked before allocation: deflate never shrinks by more than 1032:1 (zlib's technical details).
  const auto most = 1032 * (static_cast<int64_t>(std::filesystem::file_size(path)) + 1);
  if (numel > most / size) reader.fail("the file is too small for its dimensions");
  at::Tensor tensor = at::empty(shape, at::TensorOptions().dtype(dtype));
  hint_large_pages(tensor.data_ptr(), numel * size);
  reader.read(tensor.data_ptr(), numel * size);
  reader.expect_end();
  if (size > 1) swap_bytes(static_cast<char*>(tensor.data_ptr()), numel, static_cast<size_t>(size));
  return tensor;
}

}  // namespace tw
