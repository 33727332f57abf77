# cmake -DINPUT=file -DOUTPUT=file.hpp -DNAMESPACE=weir::x -DNAME=symbol -P embed_text.cmake
# Writes a header with the text of a file as `inline constexpr std::string_view NAME`.
file(READ ${INPUT} text)
file(WRITE ${OUTPUT}.new "#pragma once\n\n#include <string_view>\n\nnamespace ${NAMESPACE} {\n\n")
file(APPEND ${OUTPUT}.new "inline constexpr std::string_view ${NAME} = R\"embedded(")
file(APPEND ${OUTPUT}.new "${text}")
file(APPEND ${OUTPUT}.new ")embedded\";\n\n}  // namespace ${NAMESPACE}\n")
file(RENAME ${OUTPUT}.new ${OUTPUT})
