// SPDX-License-Identifier: Apache-2.0
#include <tw/base/text_stream.hpp>
#include <tw/parallel_in_time/solver.hpp>

namespace tw::layer_parallel {

std::optional<double> Report::convergence_factor(int i) const {
  if (i < 1 || i >= static_cast<int>(residuals.size())) return std::nullopt;
  const std::optional<double>& before = residuals[static_cast<size_t>(i) - 1];
  const std::optional<double>& now = residuals[static_cast<size_t>(i)];
  return before && now && *before > 0 ? std::optional(*now / *before) : std::nullopt;
}

std::string Report::describe() const {
  TextWriter out;
  out.precision(3);
  if (serial) out << "diverged, then solved serially; ";
  out << iterations << (iterations == 1 ? " iteration" : " iterations") << (converged ? ", converged" : diverged ? ", diverged" : "") << '\n';
  for (size_t i = 0; i < residuals.size(); ++i) {
    out << "  " << i + 1 << ": ";
    if (residuals[i]) {
      out << "residual " << *residuals[i];
    } else {
      out << "residual not computed";
    }
    if (const auto factor = convergence_factor(static_cast<int>(i))) out << ", factor " << *factor;
    out << '\n';
  }
  for (size_t level = 0; level < steps.size(); ++level) {
    out << "  level " << level << ": " << steps[level] << " steps, " << messages[level] << " messages";
    for (size_t kind = 0; level < seconds.size() && kind < seconds[level].size(); ++kind) {
      if (seconds[level][kind].count() > 0)
        out << ", " << name_of(static_cast<Phase::Kind>(kind)) << ' ' << 1e3 * seconds[level][kind].count() << " ms";
    }
    out << '\n';
  }
  out << "  last relaxation " << 1e3 * last_relaxation.count() << " ms; waited " << 1e3 * waited.count() << " ms; " << bytes << " bytes sent\n";
  return std::move(out).str();
}

}  // namespace tw::layer_parallel
