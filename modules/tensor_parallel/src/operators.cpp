// SPDX-License-Identifier: Apache-2.0
#include "operators.hpp"

#include <torch/library.h>

#include <tw/autograd/late_registration.hpp>
#include <tw/base/concat.hpp>
#include <tw/copy_mark.hpp>
#include <tw/mpi/library.hpp>

namespace tw::tensor_parallel {
namespace {

[[gnu::used, gnu::aligned(4), gnu::section(".note.torchweave")]] const CopyMark copy_mark = {.module = {"tensor_parallel"}};

LateRegistration registration;  // by the first operator

}  // namespace

Ranks::Ranks(const Communicator& comm) : communicator(mpi::share(comm)) {}

std::string Ranks::name() const { return concat("ranks[", communicator.size(), ']'); }

void expect_registered() {
  registration.once([] {
    expect_only_copy();
    torch::class_<Ranks>("torchweave", "Ranks").def("name", &Ranks::name);
    torch::Library library(torch::Library::FRAGMENT, "torchweave", std::nullopt, __FILE__, __LINE__);
    define_operations(library);
    define_lookup(library);
    return library;
  });
}

}  // namespace tw::tensor_parallel
