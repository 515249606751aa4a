// SPDX-License-Identifier: Apache-2.0
#include "row_exchange.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/base/error.hpp>
#include <tw/tensor/memory_order.hpp>

namespace tw::pipeline {
namespace {

void expect_rows(int64_t value, at::IntArrayRef shape, int64_t rows) {
  if (!shape.empty() && shape[0] == rows) return;
  throw Error(concat("tensor ", value, " that a stage sends has the shape ", shape_text(shape.vec()), ", but ", rows,
                     " rows must be divided among replicas: its first dimension must be the rows"));
}

/// The rows of a value that a peer shares. @param mine the rows of the value
at::Tensor common_rows(const at::Tensor& value, size_t index, const Peer& peer, Rows mine) {
  if (peer.rows == mine) return value;
  expect_rows(static_cast<int64_t>(index), value.sizes(), mine.count());
  return value.narrow(0, peer.rows.begin - mine.begin, peer.rows.count());
}

/// Concatenates parts in the memory order of the largest one: the dimension order of a single row is ambiguous.
at::Tensor put_together(const std::vector<at::Tensor>& parts) {
  const auto most = std::ranges::max_element(parts, {}, [](const at::Tensor& each) { return each.size(0); });
  return in_order(at::cat(parts), memory_order(*most));
}

}  // namespace

std::vector<uint8_t> ReceivedActivations::wants() const {
  std::vector<uint8_t> any(values.size(), 0);
  for (const Part& part : parts) {
    for (size_t i = 0; i < any.size(); ++i) any[i] |= part.wants[i];
  }
  return any;
}

ReceivedActivations receive_activations(const Communicator& comm, const std::vector<Peer>& from, int border) {
  ReceivedActivations received;
  std::vector<std::vector<at::Tensor>> pieces;  // by value
  for (const Peer& peer : from) {
    Message message = receive(comm, {Rank(peer.rank), border});
    pieces.resize(message.values.size());
    for (size_t i = 0; i < pieces.size(); ++i) {
      if (from.size() > 1) expect_rows(static_cast<int64_t>(i), message.values[i].sizes(), peer.rows.count());
      pieces[i].push_back(std::move(message.values[i]));
    }
    received.parts.push_back({peer, std::move(message.wants)});
  }
  for (const std::vector<at::Tensor>& each : pieces) received.values.push_back(each.size() == 1 ? each.front() : put_together(each));
  return received;
}

void return_cotangents(const Communicator& comm, const ReceivedActivations& received, const std::vector<at::Tensor>& cotangents, Rows mine,
                       int border, std::vector<Work>& in_flight) {
  for (const ReceivedActivations::Part& part : received.parts) {
    std::vector<at::Tensor> wanted;
    for (size_t i = 0; i < part.wants.size(); ++i) {
      if (part.wants[i] == 0) continue;
      wanted.push_back(cotangents[i].defined() ? common_rows(cotangents[i], i, part.from, mine) : at::Tensor());
    }
    send_cotangents(comm, wanted, {Rank(part.from.rank), border}, in_flight);
  }
}

SentActivations send_activations(const Communicator& comm, const std::vector<Peer>& to, const Message& message, Rows mine, int border,
                                 std::vector<Work>& in_flight) {
  for (const Peer& peer : to) {
    Message part{{}, message.wants};
    for (size_t i = 0; i < message.values.size(); ++i) part.values.push_back(common_rows(message.values[i], i, peer, mine));
    send(comm, part, {Rank(peer.rank), border}, in_flight);
  }
  SentActivations sent{{}, message.wants, to, message.values.front().device()};
  for (const at::Tensor& value : message.values) sent.values.push_back({"", value.sizes().vec(), value.scalar_type()});
  return sent;
}

std::vector<at::Tensor> collect_cotangents(const Communicator& comm, const SentActivations& sent, Rows mine, int border) {
  std::vector<at::Tensor> cotangents(sent.values.size());
  std::vector<size_t> wanted;
  for (size_t i = 0; i < cotangents.size(); ++i) {
    if (sent.wants[i] == 0) continue;
    cotangents[i] = at::empty(sent.values[i].shape, at::device(sent.device).dtype(sent.values[i].dtype));
    wanted.push_back(i);
  }
  std::vector<uint8_t> exists(cotangents.size(), 0);
  std::vector<at::Tensor> missing;  // rows for which a peer has no cotangent
  for (const Peer& peer : sent.to) {
    std::vector<at::Tensor> parts;  // contiguous: rows of a contiguous tensor
    for (const size_t i : wanted) parts.push_back(common_rows(cotangents[i], i, peer, mine));
    const std::vector<uint8_t> received = receive_cotangents(comm, parts, {Rank(peer.rank), border});
    for (size_t k = 0; k < wanted.size(); ++k) {
      exists[wanted[k]] |= received[k];
      if (received[k] == 0) missing.push_back(parts[k]);
    }
  }
  for (const at::Tensor& rows : missing) rows.zero_();
  for (const size_t i : wanted) {
    if (exists[i] == 0) cotangents[i] = at::Tensor();
  }
  return cotangents;
}

}  // namespace tw::pipeline
