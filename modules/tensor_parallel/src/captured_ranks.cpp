// SPDX-License-Identifier: Apache-2.0
#include <tw/tensor_parallel/captured_ranks.hpp>

#include <tw/base/contract.hpp>
#include <tw/mpi/library.hpp>

#include "operators.hpp"

namespace tw::tensor_parallel {

c10::IValue ranks_argument(const Communicator& comm) {
  expect_registered();
  return c10::make_intrusive<Ranks>(comm);
}

CapturedRanks::CapturedRanks(const Communicator& of_layers) : of_layers_(mpi::share(of_layers)), value_(ranks_argument(of_layers)) {}

c10::IValue CapturedRanks::replacing(const graph::Object& object) const {
  if (!object.value.isCustomClass() || object.value.toObjectRef().type() != value_.toObjectRef().type()) return object.value;
  return object.value.toCustomClass<Ranks>()->communicator.state() == of_layers_.state() ? value_ : object.value;
}

void CapturedRanks::set(const Communicator& comm) {
  TW_EXPECTS(comm.size() == of_layers_.size() && comm.rank() == of_layers_.rank(), "layers are split over '", of_layers_.name(),
             "', where this is rank ", of_layers_.rank(), " of ", of_layers_.size(), ", but replays would communicate on '", comm.name(),
             "', where it is rank ", comm.rank(), " of ", comm.size());
  value_.toCustomClass<Ranks>()->communicator = mpi::share(comm);
}

}  // namespace tw::tensor_parallel
