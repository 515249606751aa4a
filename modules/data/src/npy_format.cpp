// SPDX-License-Identifier: Apache-2.0
#include "npy_format.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <optional>
#include <tw/base/contract.hpp>

namespace tw {
namespace {

static_assert(std::endian::native == std::endian::little);

struct TypeName {
  std::string_view code;  // without the byte order
  c10::ScalarType dtype;
};

constexpr std::array<TypeName, 14> type_names{{{"b1", c10::kBool},
                                               {"i1", c10::kChar},
                                               {"u1", c10::kByte},
                                               {"i2", c10::kShort},
                                               {"u2", c10::kUInt16},
                                               {"i4", c10::kInt},
                                               {"u4", c10::kUInt32},
                                               {"i8", c10::kLong},
                                               {"u8", c10::kUInt64},
                                               {"f2", c10::kHalf},
                                               {"f4", c10::kFloat},
                                               {"f8", c10::kDouble},
                                               {"c8", c10::kComplexFloat},
                                               {"c16", c10::kComplexDouble}}};

// Parses the header's Python literal front to back: {'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }
class Header {
 public:
  Header(std::string_view text, int64_t offset, const std::filesystem::path& path) : text_(text), offset_(offset), path_(path) {}

  void parse(NpyFormat& format) {
    expect('{');
    while (!accept('}')) {
      const size_t begin = position_;
      const std::string_view key = string();
      expect(':');
      if (key == "descr" && !has_descr_) {
        descr(format);
        has_descr_ = true;
      } else if (key == "fortran_order" && !has_order_) {
        format.fortran = boolean();
        has_order_ = true;
      } else if (key == "shape" && !has_shape_) {
        shape(format.shape);
        has_shape_ = true;
      } else {
        position_ = begin;
        fail("expected each of the keys 'descr', 'fortran_order' and 'shape' once");
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (position_ != text_.size()) fail("the header has trailing characters after its '}'");
    if (!has_descr_ || !has_order_ || !has_shape_) fail("the header lacks one of 'descr', 'fortran_order' and 'shape'");
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const { throw FileError(path_, offset_ + static_cast<int64_t>(position_), problem); }

  void skip_space() {
    while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\n' || text_[position_] == '\t')) ++position_;
  }

  bool accept(char wanted) {
    skip_space();
    if (position_ == text_.size() || text_[position_] != wanted) return false;
    ++position_;
    return true;
  }

  void expect(char wanted) {
    if (!accept(wanted)) fail(concat("expected '", wanted, "' in the header"));
  }

  std::string_view string() {
    skip_space();
    const char quote = position_ < text_.size() ? text_[position_] : '\0';
    if (quote != '\'' && quote != '"') fail("expected a string in the header");
    const size_t end = text_.find(quote, position_ + 1);
    if (end == std::string_view::npos) fail("a string in the header has no closing quote");
    const std::string_view value = text_.substr(position_ + 1, end - position_ - 1);
    position_ = end + 1;
    return value;
  }

  bool boolean() {
    skip_space();
    for (const bool value : {false, true}) {
      const std::string_view name = value ? "True" : "False";
      if (text_.substr(position_, name.size()) != name) continue;
      position_ += name.size();
      return value;
    }
    fail("expected True or False in the header");
  }

  void descr(NpyFormat& format) {
    skip_space();
    const size_t begin = position_;
    if (begin < text_.size() && text_[begin] == '[') fail("arrays of records (structured dtypes) cannot be read");
    const std::string_view text = string();
    const char order = text.empty() ? '?' : text[0];
    const std::string_view code = text.substr(text.empty() ? 0 : 1);
    const auto* found = std::find_if(type_names.begin(), type_names.end(), [&](const TypeName& name) { return name.code == code; });
    const bool known = found != type_names.end() && (order == '<' || order == '>' || order == '=' || order == '|');
    if (!known || (order == '|' && code.back() != '1')) {
      position_ = begin;
      fail(concat("elements of type '", printable(text), "' cannot be read; supported are bool, integers, float16, float32, float64 and complex"));
    }
    format.dtype = found->dtype;
    format.swapped = order == '>' && code.back() != '1';
  }

  // Text of the file for a message, without control characters.
  static std::string printable(std::string_view text) {
    std::string shown(text.substr(0, 40));
    std::replace_if(shown.begin(), shown.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
    return shown;
  }

  void shape(std::vector<int64_t>& out) {
    expect('(');
    while (!accept(')')) {
      skip_space();
      int64_t length = 0;
      const char* begin = text_.data() + position_;
      const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), length);
      if (error != std::errc{} || length < 0) fail("expected a length in 'shape'");
      position_ += static_cast<size_t>(end - begin);
      accept('L');  // written by Python 2
      out.push_back(length);
      if (out.size() > 64) fail("'shape' has more than 64 dimensions");
      if (!accept(',')) {
        expect(')');
        if (out.size() == 1) fail("'shape' must be a tuple: (n,)");
        break;
      }
    }
  }

  std::string_view text_;
  int64_t offset_;
  const std::filesystem::path& path_;
  size_t position_ = 0;
  bool has_descr_ = false;
  bool has_order_ = false;
  bool has_shape_ = false;
};

void check_length(const NpyFormat& format, int64_t length, const std::filesystem::path& path) {
  int64_t bytes = format.element_bytes();
  bool absurd = false;
  for (const int64_t extent : format.shape) {
    if (extent > 0) absurd = __builtin_mul_overflow(bytes, extent, &bytes) || absurd;  // ignoring zeros, since a tensor's strides must fit too
  }
  if (absurd || bytes > INT64_MAX - format.offset) throw FileError(path, format.offset, "the dimensions are too large");
  const int64_t end = format.offset + format.numel() * format.element_bytes();
  if (length < end) throw FileError(path, length, concat("the file ends here, ", end - length, " bytes early"));
  if (length > end) throw FileError(path, end, "the file should end here, but has more bytes");
}

}  // namespace

int64_t NpyFormat::numel() const noexcept {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

NpyFormat parse_npy(std::string_view content, const std::filesystem::path& path) {
  constexpr std::string_view magic = "\x93NUMPY";
  const auto length = static_cast<int64_t>(content.size());
  const auto need = [&](int64_t bytes) {
    if (length < bytes) throw FileError(path, length, concat("the file ends here, ", bytes - length, " bytes early"));
  };
  if (content.substr(0, magic.size()) != magic.substr(0, std::min(content.size(), magic.size()))) {
    throw FileError(path, 0, "not an NPY file: it must begin with \\x93NUMPY");
  }
  need(10);
  const auto byte = [&](size_t at) { return int64_t{static_cast<uint8_t>(content[at])}; };
  const int64_t major = byte(6);
  if (major < 1 || major > 3 || byte(7) != 0)
    throw FileError(path, 6, concat("NPY format ", major, ".", byte(7), " is unknown; supported are 1.0 to 3.0"));
  const int64_t begin = major == 1 ? 10 : 12;
  need(begin);
  const int64_t header = major == 1 ? byte(8) | (byte(9) << 8) : byte(8) | (byte(9) << 8) | (byte(10) << 16) | (byte(11) << 24);
  need(begin + header);

  NpyFormat format;
  format.offset = begin + header;
  Header(content.substr(static_cast<size_t>(begin), static_cast<size_t>(header)), begin, path).parse(format);
  check_length(format, length, path);
  return format;
}

std::string npy_header(c10::ScalarType dtype, const std::vector<int64_t>& shape) {
  const auto* found = std::find_if(type_names.begin(), type_names.end(), [&](const TypeName& name) { return name.dtype == dtype; });
  TW_EXPECTS(found != type_names.end(), "NPY files cannot hold elements of type ", c10::toString(dtype));
  std::string text = concat("{'descr': '", found->code.back() == '1' ? '|' : '<', found->code, "', 'fortran_order': False, 'shape': (");
  for (const int64_t extent : shape) text += std::to_string(extent) + ", ";
  text += "), }";
  constexpr size_t alignment = 64;  // of the first element, as in NumPy
  text.append(alignment - (10 + text.size() + 1) % alignment, ' ');
  text += '\n';
  TW_EXPECTS(text.size() < 65536, "the shape has too many dimensions for the header of an NPY 1.0 file");
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(text.size() & 255) + static_cast<char>(text.size() >> 8) + text;
}

void to_native(char* data, int64_t count, const NpyFormat& format) noexcept {
  if (format.dtype == c10::kBool) {
    for (int64_t i = 0; i < count; ++i) data[i] = data[i] != 0;
  }
  if (!format.swapped) return;
  const bool complex = c10::isComplexType(format.dtype);
  const int64_t size = format.element_bytes() / (complex ? 2 : 1);  // a complex number is two numbers, each swapped
  const int64_t bytes = count * format.element_bytes();
  for (char* at = data; at < data + bytes; at += size) std::reverse(at, at + size);
}

}  // namespace tw
