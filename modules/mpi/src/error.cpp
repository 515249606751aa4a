// SPDX-License-Identifier: Apache-2.0
#include <tw/base/concat.hpp>
#include <tw/base/process.hpp>
#include <tw/mpi/error.hpp>

namespace tw {

MpiError::MpiError(const std::string& call, int code, const std::string& explanation, const std::string& communicator)
    : Error(concat(process_label(), ": ", call, " failed on communicator '", communicator, "': ", explanation, " (code ", code, ")")), code_(code) {}

RevokedError::RevokedError(const std::string& communicator, const std::string& during, const std::string& reason)
    : Error(concat(process_label(), ": communicator '", communicator, "' was revoked during ", during, ": ", reason)) {}

NotInitialisedError::NotInitialisedError(const std::string& what_needs_it)
    : Error(concat(what_needs_it, " needs MPI: create a tw::Environment first, or call tw::Environment::adopt() if the program has started MPI")) {}

}  // namespace tw
