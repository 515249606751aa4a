// SPDX-License-Identifier: Apache-2.0
#include "messages.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <functional>
#include <tw/base/contract.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/tensor/memory_order.hpp>
#include <tw/tensor/on_cpu.hpp>
#include <tw/tensor/packed_shapes.hpp>

namespace tw::pipeline {
namespace {

enum class Kind { state, shapes, value, which_cotangents, cotangent };

constexpr int kinds = 5;
constexpr Tag tag_of(Kind kind, int border = 0) { return Tag(static_cast<int>(kind) + kinds * border); }

constexpr size_t a_pack = 6;  // tensors whose shapes are sent together; see pack_shapes()
constexpr int64_t wants_bits = int64_t{1} << a_pack;
constexpr int64_t max_values = int64_t{1} << 32;

/// The shapes of all values, in packs. The note of each pack has the kind of their device, the number of all values, and one bit per value of the
/// pack that wants a cotangent.
std::vector<at::Tensor> pack(const Message& message) {
  TW_EXPECTS(!message.values.empty(), "a stage must send at least one tensor");
  std::vector<at::Tensor> packs;
  for (size_t begin = 0; begin < message.values.size(); begin += a_pack) {
    const size_t end = std::min(message.values.size(), begin + a_pack);
    const auto kind = static_cast<int64_t>(message.values[0].device().type());
    int64_t note = (kind * max_values + static_cast<int64_t>(message.values.size())) * wants_bits;
    for (size_t i = begin; i < end; ++i) note += int64_t{message.wants[i]} << (i - begin);
    packs.push_back(pack_shapes({message.values.begin() + static_cast<int64_t>(begin), message.values.begin() + static_cast<int64_t>(end)}, note));
  }
  return packs;
}

/// Empty tensors for the message to receive, on the current device of the sender's kind. @param receive fills a pack
Message unpack(const std::function<void(const at::Tensor&)>& receive) {
  Message message;
  for (size_t count = 1; message.values.size() < count;) {
    const at::Tensor pack = empty_packed_shapes();
    receive(pack);
    const int64_t note = note_of(pack);
    count = static_cast<size_t>(note / wants_bits % max_values);
    const auto kind = static_cast<c10::DeviceType>(note / wants_bits / max_values);
    const std::vector<at::Tensor> values = unpack_in_order(pack, current_device(kind));
    for (size_t i = 0; i < values.size(); ++i) message.wants.push_back(static_cast<uint8_t>(note >> i & 1));
    message.values.insert(message.values.end(), values.begin(), values.end());
  }
  return message;
}

void receive_all(const Communicator& comm, const std::vector<at::Tensor>& tensors, Border from, Kind kind) {
  std::vector<Work> works;
  for (const at::Tensor& tensor : tensors) works.push_back(irecv(comm, tensor, from.rank, tag_of(kind, from.before)));
  wait_all(works);
}

}  // namespace

void send(const Communicator& comm, const Message& message, Border to, std::vector<Work>& in_flight) {
  for (const at::Tensor& shapes : pack(message)) in_flight.push_back(isend(comm, shapes, to.rank, tag_of(Kind::shapes, to.before)));
  for (const at::Tensor& value : message.values) in_flight.push_back(isend(comm, as_in_memory(value), to.rank, tag_of(Kind::value, to.before)));
}

Message receive(const Communicator& comm, Border from) {
  Message message = unpack([&](const at::Tensor& pack) { recv(comm, pack, from.rank, tag_of(Kind::shapes, from.before)); });
  std::vector<at::Tensor> memory;
  for (const at::Tensor& value : message.values) memory.push_back(as_in_memory(value));
  receive_all(comm, memory, from, Kind::value);
  return message;
}

void send_cotangents(const Communicator& comm, const std::vector<at::Tensor>& cotangents, Border to, std::vector<Work>& in_flight) {
  if (cotangents.empty()) return;
  const at::Tensor exists = at::zeros({static_cast<int64_t>(cotangents.size())}, at::kByte);
  for (size_t i = 0; i < cotangents.size(); ++i) exists.mutable_data_ptr<uint8_t>()[i] = static_cast<uint8_t>(cotangents[i].defined());
  in_flight.push_back(isend(comm, exists, to.rank, tag_of(Kind::which_cotangents, to.before)));
  for (const at::Tensor& each : cotangents) {
    if (each.defined()) in_flight.push_back(isend(comm, each.contiguous(), to.rank, tag_of(Kind::cotangent, to.before)));
  }
}

std::vector<uint8_t> receive_cotangents(const Communicator& comm, const std::vector<at::Tensor>& cotangents, Border from) {
  if (cotangents.empty()) return {};
  const at::Tensor exists = at::zeros({static_cast<int64_t>(cotangents.size())}, at::kByte);
  recv(comm, exists, from.rank, tag_of(Kind::which_cotangents, from.before));
  const auto* flags = exists.const_data_ptr<uint8_t>();
  std::vector<at::Tensor> existing;
  for (size_t i = 0; i < cotangents.size(); ++i) {
    if (flags[i] != 0) existing.push_back(cotangents[i]);
  }
  receive_all(comm, existing, from, Kind::cotangent);
  return {flags, flags + cotangents.size()};
}

void send_state(const Communicator& comm, const at::Tensor& tensor, Rank to, std::vector<Work>& in_flight) {
  in_flight.push_back(isend(comm, tensor.contiguous(), to, tag_of(Kind::state)));
}

void receive_state(const Communicator& comm, const at::Tensor& tensor, Rank from) {
  const at::Tensor received = at::empty(tensor.sizes(), tensor.options());
  recv(comm, received, from, tag_of(Kind::state));
  at::Tensor(tensor).copy_(received);
}

std::vector<at::Tensor> broadcast_any(const Communicator& comm, const std::vector<at::Tensor>& tensors, Rank root) {
  if (comm.rank() != root) {
    const Message message = unpack([&](const at::Tensor& pack) { broadcast(comm, pack, root); });
    for (const at::Tensor& value : message.values) broadcast(comm, as_in_memory(value), root);
    return message.values;
  }
  for (const at::Tensor& shapes : pack({tensors, std::vector<uint8_t>(tensors.size(), 0)})) broadcast(comm, shapes, root);
  for (const at::Tensor& each : tensors) broadcast(comm, as_in_memory(each), root);
  return tensors;
}

}  // namespace tw::pipeline
