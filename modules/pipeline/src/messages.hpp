// SPDX-License-Identifier: Apache-2.0
// Messages of tensors whose number and shapes only the sender knows, and the return of their cotangents.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tw/mpi/communicator.hpp>
#include <tw/mpi/work.hpp>
#include <vector>

namespace tw::pipeline {

/// A message from one stage to the next.
struct Message {
  std::vector<at::Tensor> values;  // at least one
  std::vector<uint8_t> wants;      // by value, whether the sender wants a cotangent back
};

/// A rank at the other end of a border between two stages. Two ranks may exchange messages over several borders, in a different order on each.
struct Border {
  Rank rank;
  int before = 0;  // the stage before the border
};

/// The caller waits for the operations that send() adds to `in_flight`.
void send(const Communicator& comm, const Message& message, Border to, std::vector<Work>& in_flight);
Message receive(const Communicator& comm, Border from);

/// Both ends know the shapes and types. @param cotangents undefined if nothing depends on the value; the receiver is informed
void send_cotangents(const Communicator& comm, const std::vector<at::Tensor>& cotangents, Border to, std::vector<Work>& in_flight);
/// @return by tensor, 1 if the cotangent exists and the tensor now holds it, else 0
std::vector<uint8_t> receive_cotangents(const Communicator& comm, const std::vector<at::Tensor>& cotangents, Border from);

/// Sends the contents of a tensor to one of the same shape and type.
void send_state(const Communicator& comm, const at::Tensor& tensor, Rank to, std::vector<Work>& in_flight);
void receive_state(const Communicator& comm, const at::Tensor& tensor, Rank from);

/// The tensors of `root` on every rank. Collective.
std::vector<at::Tensor> broadcast_any(const Communicator& comm, const std::vector<at::Tensor>& tensors, Rank root);

}  // namespace tw::pipeline
