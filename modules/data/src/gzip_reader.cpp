// SPDX-License-Identifier: Apache-2.0
#include "gzip_reader.hpp"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>

namespace tw {

GzipReader::GzipReader(std::filesystem::path path) : path_(std::move(path)), file_(gzopen(path_.c_str(), "rb")) {
  if (file_ == nullptr) throw FileError(path_, 0, concat("cannot be opened: ", std::strerror(errno)));
  gzbuffer(file_, 1U << 18);
}

GzipReader::~GzipReader() { gzclose_r(file_); }

int64_t GzipReader::read_some(void* out, int64_t bytes) {
  const int got = gzread(file_, out, static_cast<unsigned>(std::min<int64_t>(bytes, 1 << 30)));
  int code = Z_OK;
  const char* message = gzerror(file_, &code);
  if (got < 0 || (code != Z_OK && code != Z_STREAM_END)) {
    if (got > 0) offset_ += got;
    throw FileError(path_, offset_, code == Z_BUF_ERROR ? "the gzip stream ends early" : concat("damaged: ", message));
  }
  offset_ += got;
  return got;
}

void GzipReader::read(void* out, int64_t bytes) {
  auto* to = static_cast<char*>(out);
  const int64_t end = offset_ + bytes;
  while (offset_ < end) {
    const int64_t got = read_some(to, end - offset_);
    if (got == 0) throw FileError(path_, offset_, concat("the file ends here, ", end - offset_, " bytes early"));
    to += got;
  }
}

void GzipReader::expect_end() {
  const int64_t end = offset_;
  char next = 0;
  if (read_some(&next, 1) != 0) throw FileError(path_, end, "the file should end here, but goes on");
}

void GzipReader::fail(const char* problem) const { throw FileError(path_, offset_, problem); }

}  // namespace tw
