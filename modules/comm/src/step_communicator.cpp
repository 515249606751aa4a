// SPDX-License-Identifier: Apache-2.0
#include <tw/comm/step_communicator.hpp>

#include <c10/util/Exception.h>

#include <array>
#include <exception>
#include <string_view>
#include <tw/mpi/collectives.hpp>
#include <tw/mpi/error.hpp>

namespace tw {

// For a RevokedError, returns only the reason of the rank that failed first. Otherwise each rank that passes it on would add a prefix, and a
// revocation carries only 255 characters.
std::string message_of_current_exception() {
  try {
    throw;
  } catch (const RevokedError& error) {
    constexpr std::string_view before_reason = " revoked it: ";
    const std::string text = error.what();
    const size_t found = text.rfind(before_reason);
    return found == std::string::npos ? text : text.substr(found + before_reason.size());
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception that is not a std::exception";
  }
}

StepCommunicator::StepCommunicator(const Communicator& comm) : lasting_(comm.dup()), step_(lasting_.dup()) {}

// A rank that fails after its last message of a step ends the others' next step, so the ranks may have begun different numbers.
bool StepCommunicator::begin() {
  ++begun_;
  if (!step_.revoked()) return false;
  std::array<int64_t, 2> most{};
  do {
    most = {begun_, -begun_};
    mpi::allreduce(lasting_, {most.data(), 2, ElementType::int64}, ReduceOp::max);
    if (begun_ < most[0]) throw RevokedError(step_.name(), "the beginning of a step", "a later step has failed on other ranks");
  } while (most[0] != -most[1]);
  step_ = lasting_.dup();
  return true;
}

void StepCommunicator::fail() const {
  if (!step_.revoked()) step_.revoke(message_of_current_exception());
}

}  // namespace tw
