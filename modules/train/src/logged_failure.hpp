// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/base/error.hpp>
#include <tw/base/log.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/mpi/error.hpp>

namespace tw::train {

/// Calls `call`. Rank 0 of `comm` logs an Error that files cause, and training continues. A RevokedError is thrown: the run ends.
template <class Call>
void log_failure(const Communicator& comm, const char* consequence, const Call& call) {
  try {
    call();
  } catch (const RevokedError&) {
    throw;
  } catch (const Error& error) {
    if (comm.rank() == 0) log_error(error.what(), "; ", consequence);
  }
}

}  // namespace tw::train
