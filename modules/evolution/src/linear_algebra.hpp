// SPDX-License-Identifier: Apache-2.0
// Decompositions of matrices. Eigen's templates for them take seconds to compile, so that they are compiled once, here.
#pragma once
#include <Eigen/Core>

namespace tw::search {

struct Eigensystem {
  Eigen::VectorXd values;   ///< ascending
  Eigen::MatrixXd vectors;  ///< orthonormal, by column
  bool has_converged = false;
};
/// Of a symmetric matrix, whose lower half is read.
Eigensystem eigensystem_of(const Eigen::MatrixXd& matrix);
/// V diag(values) V': the symmetric matrix with these eigenvalues and eigenvectors.
Eigen::MatrixXd matrix_of(const Eigen::MatrixXd& vectors, const Eigen::VectorXd& values);

/// The x for which |matrix x - right| is least, for any rank. Ref: Golub & Van Loan 2013, section 5.5.
Eigen::VectorXd least_squares(const Eigen::MatrixXd& matrix, const Eigen::VectorXd& right);
/// The x with matrix x = right. @param matrix regular
Eigen::VectorXd solution_of(const Eigen::MatrixXd& matrix, const Eigen::VectorXd& right);
/// @param matrix regular
Eigen::MatrixXd inverse_of(const Eigen::MatrixXd& matrix);
/// Orthonormal columns that span what the columns span. @param columns independent
Eigen::MatrixXd orthonormal(const Eigen::MatrixXd& columns);

}  // namespace tw::search
