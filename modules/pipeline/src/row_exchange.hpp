// SPDX-License-Identifier: Apache-2.0
// What the ranks of neighbouring stages exchange for a micro-batch: each gets its rows from, and gives them to, whoever has them.
#pragma once
#include <tw/tensor/tensor_spec.hpp>

#include <tw/planning/stage_ranks.hpp>
#include "messages.hpp"

namespace tw::pipeline {

/// What a rank has received.
struct ReceivedActivations {
  /// A rank's part of it.
  struct Part {
    Peer from;
    std::vector<uint8_t> wants;  // by value, whether its cotangent is to go back
  };
  std::vector<at::Tensor> values;
  std::vector<Part> parts;

  /// By value, whether anyone wants its cotangent.
  std::vector<uint8_t> wants() const;
};

/// What a rank has handed on, as far as cotangents come back.
struct SentActivations {
  std::vector<TensorSpec> values;  // without names
  std::vector<uint8_t> wants;
  std::vector<Peer> to;
  c10::Device device = c10::Device(c10::kCPU);  // of the values
};

/// Several senders' parts are put together along the first dimension, which is the rows.
ReceivedActivations receive_activations(const Communicator& comm, const std::vector<Peer>& from);
/// The other way. @param cotangents by value; undefined where nothing depends on the value. @param mine the rows of the values
void return_cotangents(const Communicator& comm, const ReceivedActivations& received, const std::vector<at::Tensor>& cotangents, Rows mine,
                       std::vector<Work>& in_flight);

/// @param values of rows `mine`. What goes to several ranks is cut along the first dimension; what goes to one, goes as it is.
/// @throws Error for a tensor that is to be cut and has other than `mine` rows
SentActivations send_activations(const Communicator& comm, const std::vector<Peer>& to, const Message& values, Rows mine,
                                 std::vector<Work>& in_flight);
/// By value; undefined where none was wanted or nothing depends on the value.
std::vector<at::Tensor> collect_cotangents(const Communicator& comm, const SentActivations& sent, Rows mine);

}  // namespace tw::pipeline
