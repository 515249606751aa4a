// SPDX-License-Identifier: Apache-2.0
#include "gzip_reader.hpp"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <utility>

namespace tw {
namespace {

constexpr std::string_view gzip_magic = "\x1f\x8b";
constexpr int64_t max_at_once = 1 << 30;  // zlib counts in 32 bits

}  // namespace

GzipReader::GzipReader(std::filesystem::path path) : file_(std::move(path)), rest_(file_.content()) {
  if (!rest_.starts_with(gzip_magic)) return;
  stream_ = std::make_unique<z_stream>();
  constexpr int gzip_alone = 16;  // gzip, not zlib's own format
  if (inflateInit2(stream_.get(), MAX_WBITS + gzip_alone) != Z_OK) throw std::bad_alloc();
}

GzipReader::~GzipReader() {
  if (stream_) inflateEnd(stream_.get());
}

int64_t GzipReader::copy_some(void* out, int64_t bytes) {
  const auto got = static_cast<size_t>(std::min(bytes, static_cast<int64_t>(rest_.size())));
  if (got > 0) std::memcpy(out, rest_.data(), got);
  rest_.remove_prefix(got);
  return static_cast<int64_t>(got);
}

int64_t GzipReader::inflate_some(void* out, int64_t bytes) {
  if (!in_member_) {
    if (rest_.empty()) return 0;
    if (!rest_.starts_with(gzip_magic)) throw FileError(file_.path(), offset_, concat(rest_.size(), " bytes follow the gzip stream"));
    inflateReset(stream_.get());
    in_member_ = true;
  }
  const auto given = static_cast<uInt>(std::min(static_cast<int64_t>(rest_.size()), max_at_once));
  const auto room = static_cast<uInt>(std::min(bytes, max_at_once));
  stream_->next_in = reinterpret_cast<Bytef*>(const_cast<char*>(rest_.data()));  // zlib does not modify it
  stream_->avail_in = given;
  stream_->next_out = static_cast<Bytef*>(out);
  stream_->avail_out = room;
  const int code = inflate(stream_.get(), Z_NO_FLUSH);
  rest_.remove_prefix(given - stream_->avail_in);
  const int64_t got = room - stream_->avail_out;
  if (code == Z_MEM_ERROR) throw std::bad_alloc();
  if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) {
    throw FileError(file_.path(), offset_ + got, concat("the gzip stream is damaged: ", stream_->msg == nullptr ? "not gzip" : stream_->msg));
  }
  in_member_ = code != Z_STREAM_END;
  if (in_member_ && got == 0 && rest_.empty()) throw FileError(file_.path(), offset_, "the gzip stream ends early");
  return got;
}

int64_t GzipReader::read_some(void* out, int64_t bytes) {
  if (!stream_) return copy_some(out, bytes);
  int64_t got = 0;
  do {
    got = inflate_some(out, bytes);
  } while (got == 0 && (in_member_ || !rest_.empty()));  // headers and empty members hold no content
  return got;
}

void GzipReader::read(void* out, int64_t bytes) {
  auto* to = static_cast<char*>(out);
  const int64_t end = offset_ + bytes;
  while (offset_ < end) {
    const int64_t got = read_some(to, end - offset_);
    if (got == 0) throw FileError(file_.path(), offset_, concat("the file ends here, ", end - offset_, " bytes early"));
    offset_ += got;
    to += got;
  }
}

void GzipReader::expect_end() {
  char next = 0;
  if (read_some(&next, 1) != 0) throw FileError(file_.path(), offset_, "the file should end here, but has more bytes");
}

void GzipReader::fail(const char* problem) const { throw FileError(file_.path(), offset_, problem); }

}  // namespace tw
