// SPDX-License-Identifier: Apache-2.0
#include <tw/tensor/safetensors.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <tw/base/contract.hpp>
#include <tw/base/error.hpp>
#include <tw/base/numbers.hpp>
#include <unordered_map>
#include <unordered_set>

namespace tw {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

static_assert(std::endian::native == std::endian::little, "files are little-endian, and their bytes are copied as they are");

constexpr int64_t length_bytes = 8;
constexpr size_t max_stored_dimensions = 64;
constexpr const char* metadata_key = "__metadata__";
constexpr const char* complex_key = "torchweave.complex128";

struct Dtype {
  const char* name;
  c10::ScalarType type;
};

constexpr std::array<Dtype, 16> dtypes{{{"BOOL", c10::ScalarType::Bool},
                                        {"U8", c10::ScalarType::Byte},
                                        {"I8", c10::ScalarType::Char},
                                        {"I16", c10::ScalarType::Short},
                                        {"I32", c10::ScalarType::Int},
                                        {"I64", c10::ScalarType::Long},
                                        {"U16", c10::ScalarType::UInt16},
                                        {"U32", c10::ScalarType::UInt32},
                                        {"U64", c10::ScalarType::UInt64},
                                        {"F8_E5M2", c10::ScalarType::Float8_e5m2},
                                        {"F8_E4M3", c10::ScalarType::Float8_e4m3fn},
                                        {"F16", c10::ScalarType::Half},
                                        {"BF16", c10::ScalarType::BFloat16},
                                        {"F32", c10::ScalarType::Float},
                                        {"F64", c10::ScalarType::Double},
                                        {"C64", c10::ScalarType::ComplexFloat}}};

int64_t bytes_of(c10::ScalarType type) { return static_cast<int64_t>(c10::elementSize(type)); }

int64_t round_up(int64_t value, int64_t multiple) { return divide_up(value, multiple) * multiple; }

// ---- writing ----

// The tensor as the file stores it: complex128 as pairs of float64.
TensorSpec stored(TensorSpec spec) {
  if (spec.dtype != c10::ScalarType::ComplexDouble) return spec;
  spec.dtype = c10::ScalarType::Double;
  spec.shape.push_back(2);
  return spec;
}

const char* stored_name(const TensorSpec& spec) {
  const auto found = std::find_if(dtypes.begin(), dtypes.end(), [&](const Dtype& dtype) { return dtype.type == spec.dtype; });
  TW_EXPECTS(found != dtypes.end(), "safetensors files do not support ", dtype_name(spec.dtype), " (tensor ", spec.name, "); convert it first");
  return found->name;
}

void expect_names(const std::vector<TensorSpec>& tensors) {
  std::set<std::string> names;
  for (const TensorSpec& tensor : tensors) {
    TW_EXPECTS(tensor.name != metadata_key, "a tensor in a safetensors file cannot be called ", metadata_key);
    TW_EXPECTS(names.insert(tensor.name).second, "two tensors are called ", tensor.name);
  }
}

std::string with_length(const ordered_json& header) {
  std::string text;
  try {
    text = header.dump();
  } catch (const json::exception& error) {
    TW_EXPECTS(false, "names and metadata of a safetensors file must be UTF-8: ", error.what());
  }
  text.append(static_cast<size_t>(round_up(static_cast<int64_t>(text.size()) + length_bytes, 64) - length_bytes) - text.size(), ' ');
  const uint64_t length = text.size();
  std::string bytes(length_bytes, '\0');
  std::memcpy(bytes.data(), &length, length_bytes);
  return bytes + text;
}

// ---- reading ----

/// Finds a duplicate key in an object, which json::parse() accepts.
class DuplicateKeys : public nlohmann::json_sax<json> {
 public:
  std::string found;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_array(size_t) override { return true; }
  bool end_array() override { return true; }
  bool start_object(size_t) override {
    open_.emplace_back();
    return true;
  }
  bool key(string_t& key) override {
    if (open_.back().insert(key).second) return true;
    found = key;
    return false;
  }
  bool end_object() override {
    open_.pop_back();
    return true;
  }
  bool parse_error(size_t, const std::string&, const json::exception&) override { return false; }  // json::parse() reports it

 private:
  std::vector<std::unordered_set<std::string>> open_;  // keys of the objects still open
};

/// Parses one header; throws FileError with the position.
class HeaderReader {
 public:
  HeaderReader(std::string_view file, const std::filesystem::path& path) : file_(file), path_(path) {}

  SafetensorsContents read() {
    const json header = parse(header_text());
    if (!header.is_object()) fail(length_bytes, "the header is not a JSON object");
    SafetensorsContents contents;
    for (const auto& [key, value] : header.items()) {
      if (key == metadata_key) {
        contents.metadata = read_metadata(value);
      } else {
        contents.entries.push_back(read_entry(key, value));
      }
    }
    check_places(contents.entries);
    restore_complex(contents);
    return contents;
  }

 private:
  [[noreturn]] void fail(int64_t offset, const std::string& problem) const { throw FileError(path_, offset, problem); }
  [[noreturn]] void fail_at(const std::string& name, const std::string& problem) const {
    const size_t at = file_.substr(0, static_cast<size_t>(data_)).find(json(name).dump(-1, ' ', false, json::error_handler_t::replace));
    fail(at == std::string_view::npos ? length_bytes : static_cast<int64_t>(at), "tensor " + name + ": " + problem);
  }

  std::string_view header_text() {
    const auto size = static_cast<int64_t>(file_.size());
    if (size < length_bytes) fail(size, concat("the file ends here, ", length_bytes - size, " bytes early"));
    uint64_t length = 0;
    std::memcpy(&length, file_.data(), length_bytes);
    if (length > static_cast<uint64_t>(size - length_bytes)) {
      fail(0, concat("the header's length is ", length, " bytes, but only ", size - length_bytes, " follow"));
    }
    data_ = length_bytes + static_cast<int64_t>(length);
    const std::string_view text = file_.substr(length_bytes, length);
    if (text.empty() || text.front() != '{') fail(length_bytes, "not a safetensors file: its header does not begin with {");
    return text;
  }

  json parse(std::string_view text) const {
    DuplicateKeys duplicates;  // a separate pass: json::parse() with a callback takes time quadratic in the number of keys
    if (!json::sax_parse(text, &duplicates) && !duplicates.found.empty()) fail_at(duplicates.found, "occurs twice");
    try {
      return json::parse(text);
    } catch (const json::parse_error& error) {
      fail(length_bytes + std::max<int64_t>(static_cast<int64_t>(error.byte) - 1, 0), concat("the header is not JSON: ", error.what()));
    }
  }

  std::map<std::string, std::string> read_metadata(const json& value) const {
    if (!value.is_object()) fail_at(metadata_key, "is not an object");
    std::map<std::string, std::string> metadata;
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) fail_at(key, "metadata must be text");
      metadata[key] = text.get<std::string>();
    }
    return metadata;
  }

  SafetensorsEntry read_entry(const std::string& name, const json& value) const {
    if (!value.is_object() || !value.contains("dtype") || !value.contains("shape") || !value.contains("data_offsets") || value.size() != 3) {
      fail_at(name, "must have dtype, shape and data_offsets, and nothing else");
    }
    const std::string dtype = read_text(name, value["dtype"], "dtype");
    const auto* const known = std::find_if(dtypes.begin(), dtypes.end(), [&](const Dtype& each) { return dtype == each.name; });
    const bool is_known = known != dtypes.end();
    SafetensorsEntry entry{.spec = {name, read_shape(name, value["shape"]), is_known ? known->type : c10::ScalarType::Undefined},
                           .unsupported_dtype = is_known ? "" : dtype};
    const auto offsets = read_numbers(name, value["data_offsets"], "data_offsets");
    const int64_t room = static_cast<int64_t>(file_.size()) - data_;
    if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > room) {
      fail_at(name, concat("data_offsets ", shape_text(offsets), " do not lie in the ", room, " bytes of data"));
    }
    entry.offset = data_ + offsets[0];
    entry.bytes = offsets[1] - offsets[0];
    int64_t needed = is_known ? bytes_of(entry.spec.dtype) : 1;
    bool absurd = false;
    for (const int64_t length : entry.spec.shape) absurd = absurd || __builtin_mul_overflow(needed, std::max<int64_t>(length, 1), &needed);
    if (absurd) fail_at(name, "the shape is too large");
    if (!is_known) return entry;  // the element size of an unknown dtype is unknown
    needed = entry.spec.numel() * bytes_of(entry.spec.dtype);
    if (needed != entry.bytes) fail_at(name, concat("its shape needs ", needed, " bytes, but its data_offsets hold ", entry.bytes));
    return entry;
  }

  std::string read_text(const std::string& name, const json& value, const char* what) const {
    if (!value.is_string()) fail_at(name, concat(what, " must be text"));
    return value.get<std::string>();
  }

  std::vector<int64_t> read_shape(const std::string& name, const json& value) const {
    std::vector<int64_t> shape = read_numbers(name, value, "shape");
    if (shape.size() > max_stored_dimensions) fail_at(name, concat("has ", shape.size(), " dimensions, more than ", max_stored_dimensions));
    return shape;
  }

  std::vector<int64_t> read_numbers(const std::string& name, const json& value, const char* what) const {
    constexpr auto most = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    const auto fits = [](const json& number) { return number.is_number_unsigned() && number.get<uint64_t>() <= most; };
    if (!value.is_array() || !std::all_of(value.begin(), value.end(), fits))
      fail_at(name, concat(what, " must be an array of sizes, which are non-negative integers"));
    return value.get<std::vector<int64_t>>();
  }

  // Checks that the tensors are contiguous and fill the file.
  void check_places(std::vector<SafetensorsEntry>& entries) const {
    std::sort(entries.begin(), entries.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
      return std::tuple(a.offset, a.bytes, a.spec.name) < std::tuple(b.offset, b.bytes, b.spec.name);
    });
    int64_t end = data_;
    for (const SafetensorsEntry& entry : entries) {
      if (entry.offset < end) fail_at(entry.spec.name, concat("begins at byte ", entry.offset, ", inside the tensor before it"));
      if (entry.offset > end) fail_at(entry.spec.name, concat("begins at byte ", entry.offset, ", after a hole that begins at byte ", end));
      end = entry.offset + entry.bytes;
    }
    if (end != static_cast<int64_t>(file_.size())) fail(end, concat("the tensors end here, but the file has ", file_.size(), " bytes"));
  }

  void restore_complex(SafetensorsContents& contents) const {
    const auto listed = contents.metadata.find(complex_key);
    if (listed == contents.metadata.end()) return;
    const json names = json::parse(listed->second, nullptr, false);
    if (!names.is_array() || !std::all_of(names.begin(), names.end(), [](const json& name) { return name.is_string(); })) {
      fail_at(complex_key, "must list names of tensors");
    }
    std::unordered_map<std::string, TensorSpec*> specs;
    for (SafetensorsEntry& entry : contents.entries) specs.emplace(entry.spec.name, &entry.spec);
    for (const auto& name : names.get<std::vector<std::string>>()) {
      const auto found = specs.find(name);
      if (found == specs.end()) fail_at(complex_key, "there is no tensor " + name);
      TensorSpec& spec = *found->second;
      if (spec.dtype != c10::ScalarType::Double || spec.shape.empty() || spec.shape.back() != 2)
        fail_at(name, "is marked as complex128, but is not F64 with a last dimension of 2");
      spec.dtype = c10::ScalarType::ComplexDouble;
      spec.shape.pop_back();
    }
    contents.metadata.erase(listed);
  }

  std::string_view file_;
  const std::filesystem::path& path_;
  int64_t data_ = 0;  // offset of the tensors' data
};

}  // namespace

SafetensorsPlan plan_safetensors(const std::vector<TensorSpec>& tensors, const std::map<std::string, std::string>& metadata) {
  expect_names(tensors);
  SafetensorsPlan plan;
  plan.entries.resize(tensors.size());
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // The largest elements first: then each tensor is aligned without padding.
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return bytes_of(tensors[a].dtype) > bytes_of(tensors[b].dtype); });

  ordered_json header = ordered_json::object();
  header[metadata_key] = metadata;
  std::vector<std::string> complex;
  int64_t end = 0;
  for (const size_t i : order) {
    const TensorSpec as_stored = stored(tensors[i]);
    if (as_stored.dtype != tensors[i].dtype) complex.push_back(tensors[i].name);
    const int64_t bytes = as_stored.numel() * bytes_of(as_stored.dtype);
    // Appended, because operator[] would search all earlier names; expect_names() has checked that this one is new.
    ordered_json entry{{"dtype", stored_name(as_stored)}, {"shape", as_stored.shape}, {"data_offsets", {end, end + bytes}}};
    header.get_ref<ordered_json::object_t&>().push_back({tensors[i].name, std::move(entry)});
    plan.entries[i] = {.spec = tensors[i], .offset = end, .bytes = bytes};
    end += bytes;
  }
  if (!complex.empty()) header[metadata_key][complex_key] = json(complex).dump(-1, ' ', false, json::error_handler_t::replace);
  if (header[metadata_key].empty()) header.erase(metadata_key);
  plan.header = with_length(header);
  const auto data = static_cast<int64_t>(plan.header.size());
  for (SafetensorsEntry& entry : plan.entries) entry.offset += data;
  plan.file_bytes = data + end;
  return plan;
}

SafetensorsContents parse_safetensors(std::string_view file, const std::filesystem::path& path) { return HeaderReader(file, path).read(); }

}  // namespace tw
