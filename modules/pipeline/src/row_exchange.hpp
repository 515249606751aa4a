// SPDX-License-Identifier: Apache-2.0
// Exchange between the ranks of neighbouring stages for a micro-batch: each rank receives its rows from the ranks that have them, and sends rows to
// the ranks that need them.
#pragma once
#include <tw/tensor/tensor_spec.hpp>

#include <tw/planning/stage_ranks.hpp>
#include "messages.hpp"

namespace tw::pipeline {

/// The values that a rank received.
struct ReceivedActivations {
  /// The part from one rank.
  struct Part {
    Peer from;
    std::vector<uint8_t> wants;  // by value, whether the sender wants its cotangent
  };
  std::vector<at::Tensor> values = {};
  std::vector<Part> parts = {};

  /// By value, whether any sender wants its cotangent.
  std::vector<uint8_t> wants() const;
};

/// The values that a rank sent, if cotangents come back.
struct SentActivations {
  std::vector<TensorSpec> values;  // without names
  std::vector<uint8_t> wants;
  std::vector<Peer> to;
  c10::Device device = c10::Device(c10::kCPU);  // device of the values
};

/// Concatenates the parts of several senders along the first dimension, the rows. @param border number of the senders' stage, here and below
ReceivedActivations receive_activations(const Communicator& comm, const std::vector<Peer>& from, int border);
/// Sends cotangents back to the senders. @param cotangents by value; undefined if nothing depends on the value. @param mine the rows of the values
void return_cotangents(const Communicator& comm, const ReceivedActivations& received, const std::vector<at::Tensor>& cotangents, Rows mine,
                       int border, std::vector<Work>& in_flight);

/// @param values with the rows `mine`. Values for several ranks are split along the first dimension; values for one rank are sent whole.
/// @throws Error for a tensor that must be split and whose number of rows differs from `mine`
SentActivations send_activations(const Communicator& comm, const std::vector<Peer>& to, const Message& values, Rows mine, int border,
                                 std::vector<Work>& in_flight);
/// Receives the cotangents of sent values. @return by value; undefined if none was wanted or nothing depends on the value
std::vector<at::Tensor> collect_cotangents(const Communicator& comm, const SentActivations& sent, Rows mine, int border);

}  // namespace tw::pipeline
