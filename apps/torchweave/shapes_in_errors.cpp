// SPDX-License-Identifier: Apache-2.0
#include "shapes_in_errors.hpp"

#include <c10/util/Exception.h>

#include <stdexcept>
#include <string>
#include <system_error>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>

#include "train_rows.hpp"

namespace tw::tool {
namespace {

[[noreturn]] void fail(const TrainConfig& config, const Dataset& train_set, const std::string& why) {
  const Batch sample = first_samples(train_set, 1);
  const std::string file = config.model.path.empty() ? "" : concat(" (model.path = \"", config.model.path.string(), "\")");
  throw Error(concat("model.name = \"", config.model.name, '"', file, " cannot be trained on data.kind = \"", config.data.kind,
                     "\", whose samples have inputs ", sample.inputs.sizes().slice(1), " and targets ", sample.targets.sizes().slice(1), ": ", why));
}

}  // namespace

void with_shapes_in_errors(const TrainConfig& config, const Dataset& train_set, const std::function<void()>& call) {
  try {
    call();
  } catch (const Error&) {
    throw;
  } catch (const std::system_error&) {  // from files and threads
    throw;
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::Error& error) {
    fail(config, train_set, error.what_without_backtrace());
  } catch (const std::runtime_error& error) {  // from a TorchScript file
    fail(config, train_set, error.what());
  }
}

}  // namespace tw::tool
