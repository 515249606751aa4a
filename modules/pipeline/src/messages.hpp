// SPDX-License-Identifier: Apache-2.0
// Tensors whose number and shapes only the sender knows, and the way back of their cotangents.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tw/mpi/communicator.hpp>
#include <tw/mpi/work.hpp>
#include <vector>

namespace tw::pipeline {

/// What goes from one stage to the next.
struct Message {
  std::vector<at::Tensor> values;  // at least one
  std::vector<uint8_t> wants;      // by value, whether a cotangent is to come back
};

/// What send() adds to `in_flight` is to be waited for.
void send(const Communicator& comm, const Message& message, Rank to, std::vector<Work>& in_flight);
Message receive(const Communicator& comm, Rank from);

/// Both ends know shapes and types of these. @param cotangents undefined where nothing depends on the value: the receiver is told
void send_cotangents(const Communicator& comm, const std::vector<at::Tensor>& cotangents, Rank to, std::vector<Work>& in_flight);
/// @return by tensor, 1 where a cotangent exists and is in the tensor now, else 0
std::vector<uint8_t> receive_cotangents(const Communicator& comm, const std::vector<at::Tensor>& cotangents, Rank from);

/// What a tensor holds, for one of the same shape and type.
void send_state(const Communicator& comm, const at::Tensor& tensor, Rank to, std::vector<Work>& in_flight);
void receive_state(const Communicator& comm, const at::Tensor& tensor, Rank from);

/// `root`'s tensors on every rank. Collective.
std::vector<at::Tensor> broadcast_any(const Communicator& comm, const std::vector<at::Tensor>& tensors, Rank root);

}  // namespace tw::pipeline
