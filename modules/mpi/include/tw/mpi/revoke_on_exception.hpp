// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <exception>
#include <tw/mpi/communicator.hpp>

namespace tw {

/// Returns the result of `f()`. If `f` throws, revokes `comm` and rethrows: the other ranks' waits on `comm` then end with RevokedError. After that,
/// `comm` supports only subset().
template <class F>
auto revoke_on_exception(const Communicator& comm, const F& f) {
  try {
    return f();
  } catch (const std::exception& e) {
    if (!comm.revoked()) comm.revoke(e.what());
    throw;
  } catch (...) {
    if (!comm.revoked()) comm.revoke("an exception that is not a std::exception");
    throw;
  }
}

}  // namespace tw
