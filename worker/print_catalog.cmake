# cmake -DPROGRAM=weir-worker -DOUTPUT=catalog.json -P print_catalog.cmake
# Writes the catalog only if it changed, so that a new weir-worker alone does not rebuild what embeds it.
execute_process(COMMAND ${PROGRAM} catalog OUTPUT_VARIABLE catalog COMMAND_ERROR_IS_FATAL ANY)
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "${catalog}" @ONLY)
