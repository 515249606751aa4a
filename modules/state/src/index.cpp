// SPDX-License-Identifier: Apache-2.0
#include <tw/state/index.hpp>

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>
#include <tw/base/contract.hpp>
#include <tw/base/error.hpp>
#include <tw/base/hash.hpp>
#include <tw/base/number_text.hpp>

#include "boxes.hpp"

namespace tw {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* format = "torchweave checkpoint";
constexpr int64_t version = 1;
constexpr std::array kinds{ShardKind::parameter, ShardKind::buffer, ShardKind::optimizer, ShardKind::counter};
constexpr std::array reshards{OnReshard::shard, OnReshard::replicate, OnReshard::sum, OnReshard::mean, OnReshard::drop};
constexpr std::array dtypes{c10::ScalarType::Bool,  c10::ScalarType::Byte,   c10::ScalarType::Char,         c10::ScalarType::Short,
                            c10::ScalarType::Int,   c10::ScalarType::Long,   c10::ScalarType::Half,         c10::ScalarType::BFloat16,
                            c10::ScalarType::Float, c10::ScalarType::Double, c10::ScalarType::ComplexFloat, c10::ScalarType::ComplexDouble};

std::string frame(std::string_view body) { return concat("{\"checksum\":\"", hex_text(content_hash(body)), "\",\"index\":", body, "}\n"); }

/// Reads a JSON document; throws json::exception or Error if it is malformed.
class Reader {
 public:
  static const json& field(const json& object, const char* name) {
    if (!object.is_object() || !object.contains(name)) throw Error(concat("there is no \"", name, "\" in the index"));
    return object[name];
  }

  static std::string text(const json& object, const char* name) {
    const json& value = field(object, name);
    if (!value.is_string()) throw Error(concat("\"", name, "\" is not a string"));
    return value.get<std::string>();
  }

  static const json& array(const json& object, const char* name) {
    const json& value = field(object, name);
    if (!value.is_array()) throw Error(concat("\"", name, "\" is not an array"));
    return value;
  }

  static int64_t size(const json& value, const char* name) {
    if (!value.is_number_unsigned() || value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
      throw Error(concat("\"", name, "\" is not an integer of at least 0"));
    return value.get<int64_t>();
  }

  static std::vector<int64_t> sizes(const json& object, const char* name) {
    std::vector<int64_t> values;
    for (const json& value : array(object, name)) values.push_back(size(value, name));
    return values;
  }

  static std::vector<std::string> texts(const json& object, const char* name) {
    std::vector<std::string> values;
    for (const json& value : array(object, name)) {
      if (!value.is_string()) throw Error(concat("\"", name, "\" is not an array of strings"));
      values.push_back(value.get<std::string>());
    }
    return values;
  }

  /// The element of `choices` whose name is the value of the field. @param name_of returns the name of a choice.
  template <class Choices, class NameOf>
  static auto choice(const json& object, const char* name, const Choices& choices, NameOf name_of) {
    const std::string given = text(object, name);
    const auto found = std::find_if(choices.begin(), choices.end(), [&](const auto& choice) { return name_of(choice) == given; });
    if (found == choices.end()) throw Error(concat("\"", name, "\" is \"", given, "\", which is unknown"));
    return *found;
  }
};

/// Reads everything of a tensor except its pieces.
StoredTensor read_header(const json& value) {
  StoredTensor tensor{.spec = {Reader::text(value, "name"), Reader::sizes(value, "shape"), Reader::choice(value, "dtype", dtypes, dtype_name)},
                      .aliases = Reader::texts(value, "aliases"),
                      .kind = Reader::choice(value, "kind", kinds, [](ShardKind kind) { return name_of(kind); }),
                      .on_reshard = Reader::choice(value, "on_reshard", reshards, [](OnReshard on_reshard) { return name_of(on_reshard); })};
  if (value.contains("layers")) tensor.layers = Reader::text(value, "layers");
  if (const std::string problem = stack_problem(tensor.spec, tensor.layers); !problem.empty()) throw Error(problem);
  int64_t bytes = static_cast<int64_t>(c10::elementSize(tensor.spec.dtype));
  for (const int64_t length : tensor.spec.shape) {
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(length, 1), &bytes)) throw Error(tensor.spec.name + ": its shape is too large");
  }
  return tensor;
}

Box read_box(const json& value) {
  Box box{Reader::sizes(value, "offsets"), Reader::sizes(value, "lengths")};
  if (box.offsets.size() != box.lengths.size()) {
    throw Error(concat("a piece has ", box.offsets.size(), " offsets and ", box.lengths.size(), " lengths, expected the same number"));
  }
  for (size_t i = 0; i < box.offsets.size(); ++i) {
    int64_t end = 0;
    if (__builtin_add_overflow(box.offsets[i], box.lengths[i], &end)) throw Error("a piece is too large");
  }
  return box;
}

StoredTensor read_tensor(const json& value, int64_t files) {
  StoredTensor tensor = read_header(value);
  const bool one = tensor.on_reshard == OnReshard::shard || tensor.on_reshard == OnReshard::replicate;
  const bool may_be_cut = one || tensor.on_reshard == OnReshard::mean;
  std::vector<Box> boxes;
  for (const json& entry : Reader::array(value, "pieces")) {
    StoredPiece piece{Reader::size(Reader::field(entry, "file"), "file"), Reader::text(entry, "key"), read_box(entry)};
    if (piece.file >= files)
      throw Error(concat(tensor.spec.name, " lies in file ", piece.file, ", but there are ", files, " files, numbered from 0"));
    if (!may_be_cut && piece.box != whole_box(tensor.spec.shape)) throw Error(tensor.spec.name + " has a piece that is not the whole tensor");
    boxes.push_back(piece.box);
    tensor.pieces.push_back(std::move(piece));
  }
  if (tensor.pieces.empty()) throw Error(tensor.spec.name + " has no piece");
  if (!one) {  // several ranks may have saved their own values of the same box
    std::ranges::sort(boxes);
    boxes.erase(std::ranges::unique(boxes).begin(), boxes.end());
  }
  const std::string why = may_be_cut ? tiling_problem(tensor.spec.shape, boxes) : "";
  if (!why.empty()) throw Error(tensor.spec.name + ": " + why);
  return tensor;
}

CheckpointIndex read_index(const json& root) {
  if (Reader::text(root, "format") != format) throw Error("this is not the index of a checkpoint");
  const int64_t found = Reader::size(Reader::field(root, "version"), "version");
  if (found != version) throw Error(concat("the index has version ", found, ", but only version ", version, " is supported"));
  CheckpointIndex index;
  index.step = Reader::size(Reader::field(root, "step"), "step");
  index.metadata = Reader::text(root, "metadata");
  for (const json& entry : Reader::array(root, "files")) {
    const std::string name = file_name(static_cast<int64_t>(index.files.size()));
    if (Reader::text(entry, "name") != name) throw Error("a data file is not called " + name);
    const std::string checksum = Reader::text(entry, "xxh3");
    StoredFile file{.bytes = Reader::size(Reader::field(entry, "bytes"), "bytes")};
    const char* end = checksum.data() + checksum.size();
    const auto read = std::from_chars(checksum.data(), end, file.checksum, 16);
    if (read.ec != std::errc() || read.ptr != end) throw Error("\"xxh3\" is not a checksum in hexadecimal digits");
    index.files.push_back(file);
  }
  std::set<std::string> names;
  for (const json& entry : Reader::array(root, "tensors")) {
    index.tensors.push_back(read_tensor(entry, static_cast<int64_t>(index.files.size())));
    if (!names.insert(index.tensors.back().spec.name).second) throw Error("two tensors are called " + index.tensors.back().spec.name);
  }
  return index;
}

}  // namespace

std::string file_name(int64_t rank) { return "rank_" + padded_text(rank, 4) + ".safetensors"; }

std::string to_text(const CheckpointIndex& index) {
  ordered_json files = ordered_json::array();
  for (size_t rank = 0; rank < index.files.size(); ++rank) {
    files.push_back(
        {{"name", file_name(static_cast<int64_t>(rank))}, {"bytes", index.files[rank].bytes}, {"xxh3", hex_text(index.files[rank].checksum)}});
  }
  ordered_json tensors = ordered_json::array();
  for (const StoredTensor& tensor : index.tensors) {
    ordered_json entry{{"name", tensor.spec.name},   {"aliases", tensor.aliases},    {"dtype", dtype_name(tensor.spec.dtype)},
                       {"shape", tensor.spec.shape}, {"kind", name_of(tensor.kind)}, {"on_reshard", name_of(tensor.on_reshard)}};
    if (!tensor.layers.empty()) entry["layers"] = tensor.layers;
    ordered_json& pieces = entry["pieces"] = ordered_json::array();
    for (const StoredPiece& piece : tensor.pieces) {
      pieces.push_back({{"file", piece.file}, {"key", piece.key}, {"offsets", piece.box.offsets}, {"lengths", piece.box.lengths}});
    }
    tensors.push_back(std::move(entry));
  }
  const ordered_json root{{"format", format},           {"version", version}, {"step", index.step},
                          {"metadata", index.metadata}, {"files", files},     {"tensors", tensors}};
  try {
    return frame(root.dump());
  } catch (const json::exception& error) {
    TW_EXPECTS(false, "names and metadata of a checkpoint must be UTF-8: ", error.what());
  }
  return "";
}

CheckpointIndex parse_index_body(std::string_view text, const std::filesystem::path& path) {
  try {
    return read_index(json::parse(text));
  } catch (const json::parse_error& error) {
    throw FileError(path, std::max<int64_t>(static_cast<int64_t>(error.byte) - 1, 0), concat("not JSON: ", error.what()));
  } catch (const json::exception& error) {
    throw FileError(path, 0, error.what());
  } catch (const Error& error) {
    throw FileError(path, 0, error.what());
  }
}

CheckpointIndex parse_index(std::string_view text, const std::filesystem::path& path) {
  const size_t around = frame("").size() - 2;  // bytes before the body; two more follow it
  const bool long_enough = text.size() >= around + 2;
  const std::string_view body = long_enough ? text.substr(around, text.size() - around - 2) : std::string_view();
  const std::string expected = frame(body);
  if (!long_enough || text != expected) {
    const auto differs = std::mismatch(text.begin(), text.end(), expected.begin(), expected.end());
    throw FileError(path, differs.first - text.begin(), "the index is damaged: its checksum differs, or it is truncated");
  }
  return parse_index_body(body, path);
}

}  // namespace tw
