// SPDX-License-Identifier: Apache-2.0
#include <tw/base/contract.hpp>
#include <tw/base/numbers.hpp>
#include <tw/tensor/named_shard.hpp>

#include <c10/util/accumulate.h>

namespace tw {
namespace {

// Adds boxes for the elements [begin, end) of the part of a tensor that the leading indices `at` select.
void add_boxes(NamedShard& box, const at::Tensor& run, std::vector<int64_t>& at, int64_t begin, int64_t end, int64_t& used,
               std::vector<NamedShard>& boxes) {
  const std::vector<int64_t>& shape = box.global_shape;
  const size_t dimension = at.size();
  if (begin == end) return;
  const auto add = [&](int64_t first, int64_t last, int64_t count) {
    std::vector<int64_t> lengths(dimension, 1);
    box.offsets = at;
    if (dimension < shape.size()) {
      box.offsets.push_back(first);
      lengths.push_back(last - first);
    }
    for (size_t d = dimension + 1; d < shape.size(); ++d) {
      box.offsets.push_back(0);
      lengths.push_back(shape[d]);
    }
    box.tensor = run.narrow(0, used, count).view(lengths);
    used += count;
    boxes.push_back(box);
  };
  if (dimension == shape.size()) return add(0, 1, 1);
  const int64_t row = c10::multiply_integers(shape.begin() + static_cast<int64_t>(dimension) + 1, shape.end());
  const auto add_part_of_row = [&](int64_t index, int64_t from, int64_t to) {
    at.push_back(index);
    add_boxes(box, run, at, from, to, used, boxes);
    at.pop_back();
  };
  const int64_t first = begin / row;
  const int64_t last = end / row;
  if (first == last) return add_part_of_row(first, begin - first * row, end - first * row);
  const int64_t first_whole = divide_up(begin, row);
  if (first < first_whole) add_part_of_row(first, begin - first * row, row);
  if (first_whole < last) add(first_whole, last, (last - first_whole) * row);
  add_part_of_row(last, 0, end - last * row);
}

}  // namespace

std::string name_of(ShardKind kind) {
  switch (kind) {
    case ShardKind::parameter: return "parameter";
    case ShardKind::buffer: return "buffer";
    case ShardKind::optimizer: return "optimizer";
    case ShardKind::counter: return "counter";
  }
  return "?";
}

std::string name_of(OnReshard on_reshard) {
  switch (on_reshard) {
    case OnReshard::shard: return "shard";
    case OnReshard::replicate: return "replicate";
    case OnReshard::sum: return "sum";
    case OnReshard::mean: return "mean";
    case OnReshard::drop: return "drop";
  }
  return "?";
}

NamedShard whole(std::string name, at::Tensor tensor, ShardKind kind) {
  std::vector<int64_t> shape = tensor.sizes().vec();
  std::vector<int64_t> offsets(shape.size(), 0);
  return {std::move(name), {}, std::move(shape), std::move(tensor), std::move(offsets), kind, OnReshard::replicate};
}

std::string layer_name(const std::string& layers, int64_t layer) {
  const size_t at = layers.find("{}");
  TW_EXPECTS(at != std::string::npos, "'", layers, "' has no {} for the number of a layer");
  return concat(layers.substr(0, at), layer, layers.substr(at + 2));
}

std::vector<NamedTensor> unstacked(const NamedTensor& stack, const std::string& layers) {
  if (layers.empty()) return {stack};
  std::vector<NamedTensor> all;
  for (int64_t layer = 0; layer < stack.tensor.size(0); ++layer) {
    all.push_back({layer_name(layers, layer), stack.tensor.select(0, layer).clone()});
  }
  return all;
}

std::vector<NamedShard> slices_of_run(const std::string& name, const std::vector<int64_t>& shape, const at::Tensor& run, int64_t begin,
                                      ShardKind kind) {
  NamedShard box{.name = name, .aliases = {}, .global_shape = shape, .tensor = {}, .offsets = {}, .kind = kind, .on_reshard = OnReshard::shard};
  std::vector<NamedShard> boxes;
  std::vector<int64_t> at;
  int64_t used = 0;
  add_boxes(box, run, at, begin, begin + run.numel(), used, boxes);
  return boxes;
}

at::Tensor counterpart(const at::Tensor& other, const at::Tensor& tensor, const at::Tensor& part) {
  if (part.is_same(tensor)) return other;
  const int64_t offset = part.storage_offset() - tensor.storage_offset();
  return other.as_strided(part.sizes(), part.strides(), other.storage_offset() + offset);
}

}  // namespace tw
