// SPDX-License-Identifier: Apache-2.0
#include "operators.hpp"

#include <torch/library.h>

#include <mutex>
#include <optional>
#include <tw/base/concat.hpp>
#include <tw/copy_mark.hpp>
#include <tw/mpi/library.hpp>

namespace tw::tensor_parallel {
namespace {

[[gnu::used, gnu::aligned(4), gnu::section(".note.torchweave")]] const CopyMark copy_mark = {.module = {"tensor_parallel"}};

// By the first operator, for the reasons that graph/src/operator_listener.cpp gives. Besides, a linker leaves out files of an archive that only
// register themselves.
std::optional<torch::Library> operator_library;

}  // namespace

Ranks::Ranks(const Communicator& comm) : communicator(mpi::share(comm)) {}

std::string Ranks::name() const { return concat("ranks[", communicator.size(), ']'); }

void expect_registered() {
  static std::once_flag once;
  std::call_once(once, [] {
    expect_only_copy();
    torch::class_<Ranks>("torchweave", "Ranks").def("name", &Ranks::name);
    operator_library.emplace(torch::Library::FRAGMENT, "torchweave", std::nullopt, __FILE__, __LINE__);
    define_operations(*operator_library);
    define_lookup(*operator_library);
  });
}

}  // namespace tw::tensor_parallel
