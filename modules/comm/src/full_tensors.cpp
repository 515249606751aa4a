// SPDX-License-Identifier: Apache-2.0
#include <tw/comm/full_tensors.hpp>

#include <ATen/ops/empty.h>

#include <map>
#include <tw/base/text_stream.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/comm/objects.hpp>

namespace tw {
namespace {

/// A slice that one rank holds.
struct Slice {
  int rank = 0;
  size_t index = 0;  // in its rank's list
  c10::ScalarType dtype = c10::ScalarType::Float;
  std::vector<int64_t> global_shape = {};
  std::vector<int64_t> offsets = {};
  std::vector<int64_t> sizes = {};
};

void write(std::ostream& out, at::IntArrayRef numbers) {
  out << numbers.size();
  for (const int64_t number : numbers) out << ' ' << number;
  out << ' ';
}

std::vector<int64_t> read_numbers(std::istream& in) {
  size_t size = 0;
  in >> size;
  std::vector<int64_t> numbers(size);
  for (int64_t& number : numbers) in >> number;
  return numbers;
}

}  // namespace

void for_each_full_tensor(const Communicator& comm, const std::vector<NamedShard>& shards,
                          const std::function<void(const std::string& name, const at::Tensor& whole)>& visit) {
  TextWriter mine;
  for (const NamedShard& shard : shards) {
    mine << shard.name << '\n' << static_cast<int>(shard.tensor.scalar_type()) << ' ';
    write(mine, shard.global_shape);
    write(mine, shard.offsets);
    write(mine, shard.tensor.sizes());
    mine << '\n';
  }
  std::map<std::string, std::vector<Slice>> slices;
  const std::vector<std::string> lists = allgather_strings(comm, std::move(mine).str());
  for (size_t rank = 0; rank < lists.size(); ++rank) {
    TextReader in(lists[rank]);
    std::string name;
    for (size_t index = 0; std::getline(in, name); ++index) {
      Slice slice{static_cast<int>(rank), index};
      int dtype = 0;
      in >> dtype;
      slice.dtype = static_cast<c10::ScalarType>(dtype);
      slice.global_shape = read_numbers(in);
      slice.offsets = read_numbers(in);
      slice.sizes = read_numbers(in);
      in.ignore(2);  // a space and the end of the line
      slices[name].push_back(std::move(slice));
    }
  }
  for (const auto& [name, parts] : slices) {
    const at::Tensor whole = at::empty(parts.front().global_shape, parts.front().dtype);
    for (const Slice& slice : parts) {
      const bool is_mine = slice.rank == comm.rank();
      const at::Tensor values = is_mine ? shards[slice.index].tensor.detach().cpu().contiguous() : at::empty(slice.sizes, slice.dtype);
      broadcast(comm, values, Rank(slice.rank));
      at::Tensor place = whole;
      for (size_t d = 0; d < slice.sizes.size(); ++d) place = place.narrow(static_cast<int64_t>(d), slice.offsets[d], slice.sizes[d]);
      place.copy_(values);
    }
    visit(name, whole);
  }
}

}  // namespace tw
