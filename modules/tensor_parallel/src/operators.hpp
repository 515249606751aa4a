// SPDX-License-Identifier: Apache-2.0
// The operators of this module in LibTorch's dispatcher, in namespace "torchweave". So a captured graph can contain them.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/custom_class.h>

#include <string>
#include <tw/mpi/communicator.hpp>

namespace torch {
class Library;
}

namespace tw::tensor_parallel {

/// The ranks with which an operator communicates, as its argument. Keeps the communicator, because backward passes and captured graphs may outlive
/// the user's handle.
struct Ranks : torch::CustomClassHolder {
  explicit Ranks(const Communicator& comm);
  /// What graphs compare: the number of ranks, as in "ranks[2]". Names of communicators may differ between lines of a mesh.
  std::string name() const;

  Communicator communicator;
};
using RanksPointer = c10::intrusive_ptr<Ranks>;

/// Registers all operators, once.
void expect_registered();

// Each is defined in the file that uses it.
void define_operations(torch::Library& library);
void define_lookup(torch::Library& library);

template <class Signature>
c10::TypedOperatorHandle<Signature> operator_of(const std::string& name) {
  expect_registered();
  return c10::Dispatcher::singleton().findSchemaOrThrow(("torchweave::" + name).c_str(), "").template typed<Signature>();
}

}  // namespace tw::tensor_parallel
